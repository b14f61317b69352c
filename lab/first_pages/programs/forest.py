"""A random forest of scikit-learn on two threads."""
import numpy as np
from sklearn.ensemble import RandomForestClassifier

rng = np.random.default_rng(1)
x, y = rng.normal(size=(6000, 30)), rng.integers(0, 5, 6000)
forest = RandomForestClassifier(120, n_jobs=2, random_state=1).fit(x, y)
print(forest.score(x, y))
