"""Where a request is computed: a limited worker process, its wire, the meters of the device."""
