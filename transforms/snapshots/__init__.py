"""What steps do with snapshots: write them, and take references from them."""
