"use strict";
/** Numbers of the page: tableaus as exact fractions, runs of the methods, and the flow. Nothing here draws. */
const engine = (() => {
  // ---- Fractions, as [numerator, denominator] in lowest terms with a positive denominator ----

  const divisor = (a, b) => {
    while (b) [a, b] = [b, a % b];
    return a < 0n ? -a : a;
  };
  const fraction = (n, d = 1n) => {
    const shared = divisor(n, d) * (d < 0n ? -1n : 1n);
    return [n / shared, d / shared];
  };
  const ZERO = [0n, 1n], ONE = [1n, 1n];
  const add = ([a, b], [c, d]) => fraction(a * d + c * b, b * d);
  const multiply = ([a, b], [c, d]) => fraction(a * c, b * d);
  const negative = ([a, b]) => [-a, b];
  const sum = (list) => list.reduce(add, ZERO);
  const written = ([n, d]) => (d === 1n ? `${n}` : `${n}/${d}`);

  /** The nearest number. Digits that a number cannot hold are dropped first, because they would overflow. */
  function float([n, d]) {
    const size = (v) => v.toString(16).length * 4, excess = BigInt(Math.max(0, size(n) - 900, size(d) - 900));
    return Number(n >> excess) / Number(d >> excess);
  }

  /** The fraction that a decimal number such as "0.3" stands for. */
  function fromDecimal(text) {
    const [, sign, whole, decimals = ""] = /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(text);
    return fraction(BigInt(`${sign === "-" ? "-" : ""}${whole}${decimals}` || "0"), 10n ** BigInt(decimals.length));
  }

  /** The exact value of a finite number. */
  function fromNumber(v) {
    let power = 0;
    for (; !Number.isInteger(v); power++) v *= 2;
    return fraction(BigInt(v), 2n ** BigInt(power));
  }

  // ---- Tableaus ----

  // Limits for what is typed. Methods of order 8 have 12 stages. The certificate of a tableau with 12 stages and entries
  // of 15 digits takes about one second, and that of every tableau of the catalogue less than 10 ms.
  const MOST_STAGES = 12, LARGEST = 100;
  const ENTRY = /^([+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}))(?:\/(\d{1,15}))?$/;

  function readEntry(text, where) {
    const parts = ENTRY.exec(text);
    if (!parts) {
      throw new Error(`The entry “${text}” of ${where} is not a number; write for example 1/6, -0.5 or 2.`);
    }
    if (parts[2] !== undefined && BigInt(parts[2]) === 0n) {
      throw new Error(`The entry ${text} of ${where} has the denominator 0.`);
    }
    const value = multiply(fromDecimal(parts[1]), fraction(1n, BigInt(parts[2] ?? 1)));
    if (Math.abs(float(value)) > LARGEST) {
      throw new Error(`The entry ${text} of ${where} must lie between -${LARGEST} and ${LARGEST}.`);
    }
    return value;
  }

  /**
   * The tableau of a drawing: the rows of A below the diagonal, then beta. Lines or semicolons separate rows, and
   * spaces, commas or underscores separate entries. The first row of A has no entries and is not written, so line i of
   * the drawing has i entries. The times omega are the row sums of A.
   */
  function readTableau(drawing) {
    const entries = (line) => line.split(/[\s,_]+/).filter(Boolean);
    const lines = drawing.split(/[\n;]/).map(entries).filter((row) => row.length);
    if (!lines.length) throw new Error("The tableau is empty; type the rows of A and then beta, for example 1.");
    if (lines.length > MOST_STAGES) {
      throw new Error(`The tableau has ${lines.length} stages; at most ${MOST_STAGES} are accepted.`);
    }
    const rows = lines.map((line, i) => {
      const where = i === lines.length - 1 ? "beta" : `row ${i + 1} of A`;
      if (line.length !== i + 1) {
        const given = line.length === 1 ? "1 entry" : `${line.length} entries`;
        throw new Error(`${where[0].toUpperCase()}${where.slice(1)} has ${given}; expected ${i + 1}.`);
      }
      return line.map((text) => readEntry(text, where));
    });
    const exact = { A: [[], ...rows.slice(0, -1)], beta: rows.at(-1) }, total = sum(exact.beta);
    if (Math.abs(float(add(total, [-1n, 1n]))) > 1e-12) {
      throw new Error(`Beta must sum to 1; it sums to ${written(total)}.`);
    }
    exact.omega = exact.A.map(sum);
    const tableau = {
      exact, q: rows.length, drawing: rows.map((row) => row.map(written).join(" ")).join("\n"),
      A: exact.A.map((row) => row.map(float)), beta: exact.beta.map(float), omega: exact.omega.map(float),
    };
    return { ...tableau, order: order(tableau) };
  }

  const inner = (a, b) => a.reduce((total, v, i) => total + v * b[i], 0);

  /** Stage weights and density of all sequences of rooted trees with n nodes; see fwflow/tableau/scheme.py. */
  function forests({ A, omega }, n) {
    if (n === 0) return [[omega.map(() => 1), 1]];
    const found = [];
    for (let size = 1; size <= n; size++) {
      const branches = forests({ A, omega }, size - 1);
      const trees = branches.map(([phi, density]) => [A.map((row) => inner(row, phi)), size * density]);
      for (const [others, rest] of forests({ A, omega }, n - size)) {
        for (const [phi, density] of trees) found.push([phi.map((v, i) => v * others[i]), density * rest]);
      }
    }
    return found;
  }

  /** Order of accuracy, up to 5. The row sums of A are omega, so a leaf of a tree has one meaning only. */
  function order(tableau) {
    for (let n = 1; n <= 5; n++) {
      for (const [phi, density] of forests(tableau, n - 1)) {
        if (Math.abs(inner(tableau.beta, phi) - 1 / (n * density)) > 1e-10) return n - 1;
      }
    }
    return 5;
  }

  /** Mixture weights W = A Q and p = Qᵀ beta with Q = (I + Γ A)⁻¹ Γ, by forward substitution. */
  function mixture({ A, beta }, gamma) {
    const Q = [], W = [], p = [];
    A.forEach((row, i) => {
      const w = Q.map(() => 0);
      row.forEach((a, j) => Q[j].forEach((entry, l) => { w[l] += a * entry; }));
      const own = [...w.map((v) => -gamma[i] * v), gamma[i]];
      p.push(0);
      own.forEach((entry, j) => { p[j] += beta[i] * entry; });
      W.push(w);
      Q.push(own);
    });
    return { W, p };
  }

  /** Δ γ(t + ω Δ) of every stage of step k, where γ(t) = c / (c + t). */
  const stageGammas = ({ omega }, { c, delta }, k) => omega.map((w) => delta * (c / (c + (k + w) * delta)));

  const ROUNDING = 1e-12; // tolerance of weights and of their sums, as in fwflow
  const isConvex = (w) => w.every((v) => v >= -ROUNDING) && inner(w, w.map(() => 1)) <= 1 + ROUNDING;

  /** The first step at which the schedule is defined at all stages; stages with negative omega lie before the step. */
  const definedFrom = ({ omega }, { c, delta }) => Math.max(0, Math.floor(-Math.min(...omega) - c / delta) + 1);

  function certificate(tableau, schedule, k) {
    const { W, p } = mixture(tableau, stageGammas(tableau, schedule, k));
    return {
      p, z: p.map((v) => tableau.q * v), feasible: isConvex(p), stagesFeasible: W.every(isConvex),
      feasibleFrom: feasibleFrom(tableau, schedule),
    };
  }

  // Polynomials are lists of exact coefficients, the constant first.
  const polyAdd = (a, b) => (a.length > b.length ? a : b).map((_, i) => add(a[i] ?? ZERO, b[i] ?? ZERO));
  const polyScale = (a, v) => a.map((entry) => multiply(entry, v));
  function polyMultiply(a, b) {
    const product = Array.from({ length: a.length + b.length - 1 }, () => ZERO);
    a.forEach((v, i) => b.forEach((w, j) => { product[i + j] = add(product[i + j], multiply(v, w)); }));
    return product;
  }
  const polyProduct = (list) => list.reduce(polyMultiply, [ONE]);
  const polySum = (list) => list.reduce(polyAdd, [ZERO]);
  const horner = (a, x) => a.reduceRight((total, v) => total * x + v, 0);
  const isNegative = (a, x) => a.reduceRight((total, v) => add(multiply(total, x), v), ZERO)[0] < 0n;

  /** The real roots in (0, end), from those of the derivative, between which a polynomial is monotone. */
  function roots(a, end) {
    if (a.length < 2) return [];
    const edges = [0, ...roots(a.slice(1).map((v, i) => (i + 1) * v), end), end], found = [];
    for (let i = 1; i < edges.length; i++) {
      if (horner(a, edges[i - 1]) * horner(a, edges[i]) < 0) found.push(bisect(a, edges[i - 1], edges[i]));
    }
    return found;
  }

  function bisect(a, low, high) {
    const sign = Math.sign(horner(a, low));
    for (let i = 0; i < 100; i++) {
      const middle = (low + high) / 2;
      if (Math.sign(horner(a, middle)) === sign) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  /**
   * The smallest k from which every step is a convex combination, or null if there is none. With g = Δ γ(t), the
   * weights and their slack are polynomials in g over positive denominators. They fail first at their smallest root at
   * which the sign changes. Signs are taken from exact fractions, because leading coefficients cancel.
   */
  function computeFeasibleFrom(tableau, schedule) {
    const { exact: { A, beta, omega }, q } = tableau, { c, delta } = schedule;
    const g = [ZERO, ONE], overC = fraction(...fromDecimal(String(c)).toReversed());
    const L = omega.map((w) => [ONE, multiply(w, overC)]), Y = [];
    for (let i = q - 1; i >= 0; i--) {
      const later = [];
      for (let j = i + 1; j < q; j++) {
        later.push(polyScale(polyMultiply(Y[j], polyProduct(L.slice(i + 1, j))), A[j][i]));
      }
      const taken = polyMultiply(g, polyScale(polySum(later), [-1n, 1n]));
      Y[i] = polyAdd(polyScale(polyProduct(L.slice(i + 1)), beta[i]), taken);
    }
    const used = polyMultiply(g, polySum(Y.map((y, i) => polyMultiply(y, polyProduct(L.slice(0, i))))));
    const slack = polyAdd(polyProduct(L), polyScale(used, [-1n, 1n]));

    let firstFailure = Infinity;
    for (const polynomial of [...Y, slack]) {
      const lowest = polynomial.findIndex((v) => v[0] !== 0n);
      if (lowest < 0) continue;
      if (polynomial[lowest][0] < 0n) return null;
      const rest = polynomial.slice(lowest, polynomial.findLastIndex((v) => v[0] !== 0n) + 1);
      const numbers = rest.map(float);
      // Steps have g <= Δ. Between neighbouring edges the polynomial is monotone.
      const edges = [0, ...roots(numbers.slice(1).map((v, i) => (i + 1) * v), delta), delta];
      const failing = edges.findIndex((edge) => isNegative(rest, fromNumber(edge)));
      if (failing > 0) firstFailure = Math.min(firstFailure, bisect(numbers, edges[failing - 1], edges[failing]));
    }
    return Math.max(definedFrom(tableau, schedule), Math.ceil(c / firstFailure - c / delta - 1e-9), 0);
  }

  const certified = new WeakMap();

  /** The same number, computed once for each tableau and schedule, because it does not depend on k. */
  function feasibleFrom(tableau, schedule) {
    if (!certified.has(tableau)) certified.set(tableau, new Map());
    const known = certified.get(tableau), key = `${schedule.c},${schedule.delta}`;
    if (!known.has(key)) known.set(key, computeFeasibleFrom(tableau, schedule));
    return known.get(key);
  }

  // ---- Problems: f = ½ (x − m)ᵀ H (x − m) over a polygon or an ellipse in the plane ----

  const minus = (a, b) => [a[0] - b[0], a[1] - b[1]];
  const times = (H, d) => [H[0][0] * d[0] + H[0][1] * d[1], H[1][0] * d[0] + H[1][1] * d[1]];
  const product = (a, b) => a[0] * b[0] + a[1] * b[1];

  /** The vertex that minimises <g, s>; the first of several, and the end of the first axis of an ellipse for g = 0. */
  function vertex({ corners, axes, rotation }, g) {
    if (corners) return corners.reduce((best, v) => (product(v, g) < product(best, g) ? v : best));
    const size = Math.max(Math.abs(g[0]), Math.abs(g[1])) || 1, h = [g[0] / size, g[1] / size];
    const v = [0, 1].map((i) => axes[i] * (rotation[0][i] * h[0] + rotation[1][i] * h[1]));
    const length = Math.sqrt(product(v, v));
    return times(rotation, length ? [(-axes[0] * v[0]) / length, (-axes[1] * v[1]) / length] : [axes[0], 0]);
  }

  /** x + Σ wᵢ (sᵢ − x) */
  function mix(x, w, s) {
    let rest = 1, moved = [0, 0];
    w.forEach((weight, i) => {
      rest -= weight;
      moved = [moved[0] + weight * s[i][0], moved[1] + weight * s[i][1]];
    });
    return [rest * x[0] + moved[0], rest * x[1] + moved[1]];
  }

  const gradient = ({ H, m }, x) => times(H, minus(x, m));

  /** f(x) − f*, without cancellation: the solution and its gradient are known. */
  function error(problem, x) {
    const d = minus(x, problem.optimum);
    return product(gradient(problem, problem.optimum), d) + product(d, times(problem.H, d)) / 2;
  }

  // ---- Step lengths, as in fwflow/steps/searches.py ----

  const SEARCHES = {
    /** The largest of limit, limit/2, limit/4, ... that decreases f by more than rounding, but at least gamma. */
    search({ value, slope, curvature }, gamma, limit) {
      if (slope >= 0) return Math.min(limit, gamma);
      const lower = value - 4 * Number.EPSILON * Math.abs(value);
      let trial = limit;
      while (trial > gamma && !(value + slope * trial + (curvature / 2) * trial ** 2 < lower)) trial /= 2;
      return Math.min(limit, Math.max(gamma, trial));
    },
    /** The minimiser of f on the line, up to the limit. */
    exact({ slope, curvature }, gamma, limit) {
      if (slope >= 0) return 0;
      return curvature <= 0 ? limit : Math.min(limit, -slope / curvature);
    },
  };

  // ---- Runs ----

  // A run stops at points that are farther from 0 than this. Only tableaus without a certificate go there.
  const FAR = 1e6;
  const SMALLEST = 1e-16; // smaller gaps and distances are rounding, and have the value null
  const positive = (v) => (v > SMALLEST ? v : null);

  /**
   * Run n steps of a method { c, delta, variant } with a tableau. Entry k of x, gap and error is iterate k + 1; entry k
   * of the others is the step from there. Steps are counted from 1, as in the triangle experiment of the paper.
   */
  function run(problem, method, tableau, n) {
    const { set, H } = problem;
    const found = { x: [problem.start], gap: [], error: [] };
    Object.assign(found, { stages: [], targets: [], shares: [], gammas: [], lengths: [] });
    let memory = null;
    for (let k = 1; ; k++) {
      const x = found.x.at(-1), g = gradient(problem, x), s = vertex(set, g);
      found.gap.push(positive(product(g, minus(x, s))));
      found.error.push(positive(error(problem, x)));
      if (k > n || !(Math.hypot(...x) < FAR)) return found;
      const gammas = stageGammas(tableau, method, k), { W, p } = mixture(tableau, gammas), stages = [], targets = [];
      for (let i = 0; i < tableau.q; i++) {
        const xBar = i ? mix(x, W[i], targets) : x;
        stages.push(xBar);
        if (method.variant === "momentum") {
          memory = momentum(problem, xBar, gammas[i], memory);
          targets.push(memory.v);
        } else {
          targets.push(i ? vertex(set, gradient(problem, xBar)) : s);
        }
      }
      let length = gammas[0];
      const shares = p.map((v) => v / gammas[0]); // weights of a step of length 1
      if (method.variant in SEARCHES) {
        const total = p.reduce((a, b) => a + b, 0), limit = p.every((v) => v >= 0) ? Math.min(1, gammas[0] / total) : 1;
        const d = minus(mix(x, shares, targets), x), { b } = problem;
        const value = product(x, times(H, x)) / 2 - product(b, x);
        const line = { value, slope: product(g, d), curvature: product(d, times(H, d)) };
        length = SEARCHES[method.variant](line, gammas[0], limit);
      }
      found.stages.push(stages);
      found.targets.push(targets);
      found.gammas.push(gammas[0]);
      found.shares.push(shares);
      found.lengths.push(length);
      found.x.push(mix(x, shares.map((v) => v * length), targets));
    }
  }

  /** y = (1 − γ) x̄ + γ v; θ ← (1 − γ) θ + γ ∇f(y); v ← LMO(θ). The initial values are θ = 0 and v = x. */
  function momentum(problem, xBar, gamma, memory) {
    const g = gradient(problem, memory ? mix(xBar, [gamma], [memory.v]) : xBar), old = memory?.theta ?? [0, 0];
    const theta = [0, 1].map((i) => (1 - gamma) * old[i] + gamma * g[i]);
    return { theta, v: vertex(problem.set, theta) };
  }

  // ---- The flow x' = s − x, in the time tau, the integral of gamma ----

  /** The time tau from the first iterate to iterate k. */
  const tauOf = ({ c, delta }, k) => c * Math.log((c + k * delta) / (c + delta));

  /** Step in tau on sets without corners. RK44 then follows the flow to 1e-8 (measured against SciPy's DOP853). */
  const FLOW_STEP = 0.005;

  /** The flow as a curve and as a function of tau: between its events, which fwflow computed, or in small steps. */
  function flow(problem, tauEnd, tableau) {
    if (problem.events) {
      // The flow moves straight to its target until the next event.
      const towards = ({ tau, x, target }, now) => {
        const rest = Math.exp(tau - now);
        return [0, 1].map((i) => target[i] + rest * (x[i] - target[i]));
      };
      const parts = [];
      for (const [tau, ...target] of problem.events) {
        parts.push({ tau, target, x: parts.length ? towards(parts.at(-1), tau) : problem.start });
      }
      return {
        curve: [...parts.map((part) => part.x), problem.optimum],
        at: (tau) => towards(parts.findLast((part) => part.tau <= tau) ?? parts[0], tau),
      };
    }
    const x = [problem.start], velocity = (point) => minus(vertex(problem.set, gradient(problem, point)), point);
    const { W, p } = mixture(tableau, tableau.omega.map(() => FLOW_STEP));
    while (x.length * FLOW_STEP < tauEnd + 2 * FLOW_STEP) {
      const targets = [], here = x.at(-1);
      for (const row of W) targets.push(vertex(problem.set, gradient(problem, mix(here, row, targets))));
      const next = mix(here, p, targets);
      if (error(problem, next) >= error(problem, here)) break; // the flow rests at the solution
      x.push(next);
    }
    const slopes = x.map(velocity), last = x.length - 1;
    return {
      curve: [...x.filter((_, i) => i % 10 === 0), problem.optimum],
      at(tau) {
        const i = Math.floor(tau / FLOW_STEP), u = tau / FLOW_STEP - i, v = 1 - u;
        if (i >= last) return problem.optimum;
        // Cubic interpolation with the slopes of the flow.
        return [0, 1].map((j) => v * v * (1 + 2 * u) * x[i][j] + u * u * (1 + 2 * v) * x[i + 1][j]
          + FLOW_STEP * u * v * (v * slopes[i][j] - u * slopes[i + 1][j]));
      },
    };
  }

  return { readTableau, mixture, stageGammas, certificate, definedFrom, run, flow, error, tauOf, positive };
})();
