"""The columns of the reasoning suite, one benchmark a module."""
