"""The compiled row loops: C sources, and how Python calls them."""
