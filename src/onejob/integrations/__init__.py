"""Other libraries, each in a file of its own, imported only when one of its objects comes."""
