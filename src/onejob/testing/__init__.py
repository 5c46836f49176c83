"""What tests of onejob, and of stores and applications that build on it, are made with."""
