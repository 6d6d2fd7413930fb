"""What is certified: one file a domain; each body takes the measurement and asserts what must hold."""
