"""Budgeted kernel covariance: the subspace of the r largest eigenvectors."""
