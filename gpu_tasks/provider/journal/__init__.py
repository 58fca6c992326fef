"""What a provider's daemon must not forget, on disk before it acts."""
