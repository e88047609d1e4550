"""
Messy tables: categories, missing cells, cross-validation, and a model in a file
================================================================================

The passenger list of the Titanic is a table as people have it: names, tickets, categories as text, and many
missing cells. You learn to prepare such a table, to choose a sparse model by cross-validation, to read its
coefficients in the units of the table, and to predict new rows from a model file. scikit-learn fits the same
model with transformers that are written by hand.
"""

import csv
import gzip
import tempfile
from importlib.resources import files
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import fwflow as fw
from fwflow.tables.constraints import Constraint
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import read_problem
from fwflow.tables.selection import select

FITTED = 900  # rows to fit, of 1309
FOLDS = 5
SEED = 0

# %%
# Data
# ----
# The package of scikit-learn contains the passenger list as a test file (OpenML data set 40945, public
# domain). We write it to two CSV files: rows to fit, and new rows. The columns ``boat`` and ``body`` are left
# out, because they were filled in after the rescue and reveal the answer.

package = files("sklearn.datasets.tests.data.openml.id_40945")
(archive,) = (file for file in package.iterdir() if file.name.startswith("data-"))
lines = gzip.decompress(archive.read_bytes()).decode().splitlines()
names = [line.split("'")[1] for line in lines if line.startswith("@attribute")]
rows = list(csv.reader(lines[lines.index("@data") + 1 :]))
np.random.default_rng(SEED).shuffle(rows)

folder = Path(tempfile.mkdtemp())
kept = [j for j, name in enumerate(names) if name not in ("boat", "body")]
for name, part in (("titanic", rows[:FITTED]), ("new", rows[FITTED:])):
    with open(folder / f"{name}.csv", "w", newline="") as file:
        table = [[names[j] for j in kept], *([row[j] for j in kept] for row in part)]
        csv.writer(file).writerows(table)
print((folder / "titanic.csv").read_text().splitlines()[0])

# %%
# Preparation
# -----------
# :func:`~fwflow.tables.problem.read_problem` reads the table and makes a matrix of it. It encodes text,
# replaces missing cells, standardises numbers, and leaves out columns that cannot help. The class of a ticket
# is a number in the table; ``categorical`` makes a category of it.

titanic = folder / "titanic.csv"
problem = read_problem(titanic, "survived", loss="logistic", categorical=["pclass"])
print(*problem.lines(), sep="\n")

# %%
# Choice of the radius
# --------------------
# The model is a logistic regression with :math:`\|x\|_1 \le r`. A small radius :math:`r` leaves few columns
# with nonzero coefficients. :func:`~fwflow.tables.selection.select` divides the rows into folds, and scores
# the rows of each fold with models of the other rows. The preparation, too, is fitted to the other rows only.
# The rule ``"1se"`` takes the smallest radius within one standard error of the best held-out loss.

chosen = select(problem, "l1", folds=FOLDS, seed=SEED, rule="1se")
model = chosen.model()
scores = chosen.held_out
print(f"radius {scores.radius:.3f}, {model.nonzero} of {len(model.names)} columns")
print(scores.text)

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.errorbar(scores.radii, scores.means, scores.errors, marker=".", capsize=2)
ax.axvline(scores.radius, color="0.4", linestyle="--", label="chosen radius")
ax.set(xscale="log", xlabel="radius of the L1 ball", ylabel="held-out logistic loss")
ax.legend()
plt.show()

# %%
# Coefficients
# ------------
# The table lists the coefficients twice. The standardised ones can be compared with each other. In original
# units, a coefficient is the change of the score for one year of age or for one unit of the fare. A positive
# score predicts survival.

print(f"{'column':<20} {'level':<8} {'standardised':>12} {'original units':>15}")
for row in model.table(model.nonzero):
    cells = f"{row.column:<20} {row.level:<8} {row.standardised:>12.3f}"
    print(f"{cells} {row.original:>15.4f}")
print(f"intercept in original units: {model.original_intercept:.3f}")

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
shown = model.table(10)[::-1]
colours = ["C0" if row.standardised > 0 else "C3" for row in shown]
ax.barh([row.name for row in shown], [row.standardised for row in shown], color=colours)
ax.axvline(0, color="0.4", linewidth=0.8)
ax.set(xlabel="standardised coefficient", ylabel="column")
plt.show()

# %%
# Predictions for new rows
# ------------------------
# A model file holds the preparation as numbers and text, without code. Columns are found by their names, so
# their order does not matter, and further columns are ignored. Levels that the model does not know, and
# missing cells, are allowed; ``notes`` reports them.

model.save(folder / "model.npz")
loaded = FittedModel.load(folder / "model.npz")
new = pd.read_csv(folder / "new.csv")
predicted = loaded.predict(new[new.columns[::-1]])
accuracy = np.mean(predicted == new["survived"].astype(str))
print(f"accuracy on {len(new)} new rows: {accuracy:.1%}")
print(*loaded.preparation.notes(new), sep="\n")

# %%
# Check against scikit-learn
# --------------------------
# The same preparation, written by hand: medians, most frequent levels, columns that indicate missing cells,
# one-hot encoding with rare levels joined, and standardised numbers.

data = pd.read_csv(folder / "titanic.csv", na_values="?")
medians = SimpleImputer(strategy="median")
numbers = ["age", "sibsp", "parch", "fare"]
limit = int(np.ceil(FITTED / 100))  # levels in fewer rows are rare
rare = {"min_frequency": limit, "handle_unknown": "infrequent_if_exist"}
modes = SimpleImputer(strategy="most_frequent")
levels = make_pipeline(modes, OneHotEncoder(**rare))
gone = FunctionTransformer(lambda columns: columns.isna().astype(float))
texts = list(dict.fromkeys(made.source for made in problem.made if made.level))
indicators = [made.source for made in problem.made if made.name.endswith(" is missing")]
by_hand = ColumnTransformer(
    [
        ("n", make_pipeline(medians, StandardScaler()), numbers),
        ("c", levels, texts),
        ("m", gone, indicators),
    ],
    sparse_threshold=0.0,
)
X, y = by_hand.fit_transform(data), data["survived"].to_numpy()
print(f"fwflow: {problem.X.shape[1]} columns, by hand: {X.shape[1]} columns")

# %%
# scikit-learn uses a penalty instead of the bound. Both problems have the same solution if the penalty is the
# multiplier of the bound: the largest absolute entry of the gradient at the solution. The losses of both
# models then agree. :class:`~sklearn.linear_model.LogisticRegressionCV` chooses its penalty by itself.

probabilities = model.probabilities(data)[:, 1]
residuals = (probabilities - y) / len(y)
dense = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
penalty = np.abs(dense.T @ residuals).max()
options = {"l1_ratio": 1, "solver": "saga", "max_iter": 20_000, "random_state": SEED}
theirs = LogisticRegression(C=1 / (penalty * len(y)), tol=1e-8, **options).fit(X, y)
losses = {
    "fwflow": -np.log(np.where(y == 1, probabilities, 1 - probabilities)).mean(),
    "scikit-learn": -np.log(theirs.predict_proba(X)[np.arange(len(y)), y]).mean(),
}
difference = abs(losses["fwflow"] - losses["scikit-learn"])
print(f"loss: {losses['fwflow']:.6f}, scikit-learn: {losses['scikit-learn']:.6f}")

search = LogisticRegressionCV(
    l1_ratios=(1,),
    solver="liblinear",
    cv=FOLDS,
    scoring="neg_log_loss",
    use_legacy_attributes=False,
).fit(X, y)
X_new = by_hand.transform(pd.read_csv(folder / "new.csv", na_values="?"))
other = np.mean(search.predict(X_new) == new["survived"])
size = np.count_nonzero(search.coef_)
print(f"LogisticRegressionCV: accuracy {other:.1%}, {size} columns")

# %%
# Other constraints
# -----------------
# A ball of groups uses all levels of a category or none of them. Bounds hold in original units: here nobody
# gains from a higher age.

for constraint in (
    Constraint.parse("group:1"),
    Constraint.parse("l1:3", upper=["age=-0.02"]),
):
    result = fw.minimize(problem.f, problem.set_of(constraint), tol=1e-8)
    fitted = problem.model(result, constraint.text)
    age = next(row.original for row in fitted.table() if row.name == "age") + 0.0
    used = sorted({row.column for row in fitted.table(99)})
    print(f"{constraint.text}: age {age:.4f} per year, columns {', '.join(used)}")

# %%
# Command line
# ------------
# The same model without Python:
#
# .. code-block:: sh
#
#    fwflow solve titanic.csv --target survived --loss logistic --categorical pclass \
#        --set l1 --cv 5 --rule 1se --out model.npz
#    fwflow inspect model.npz --plot coefficients.svg
#    fwflow predict model.npz new.csv --out predictions.csv
#
# Summary
# -------
# * The table was used as it is. The printed lines say what was done with every column.
# * Cross-validation chose a model with few columns. Its accuracy on new rows is close to that of
#   scikit-learn's search.
# * The loss of scikit-learn's solver for the same problem agrees with that of fwflow.
