"""Products of matrices by OpenBLAS through numpy."""
import numpy as np

a = np.random.default_rng(1).normal(size=(900, 900))
for _ in range(60):
    a = a @ a
    a /= np.abs(a).max()
print(a.sum())
