"""Programs of other languages and libraries that call a running server, and the tests that run them."""
