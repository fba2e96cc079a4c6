"""OK-FEB and OK-FE: stochastic subspace tracking, with and without a budget."""
