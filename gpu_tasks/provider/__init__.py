"""The provider's programs: watch the market, execute units, attest, judge, keep blobs."""
