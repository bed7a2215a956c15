"""The text of a `%%tensor` cell: index notation such as `Y[i, j] += X[i, k] * W[j, k]`."""
