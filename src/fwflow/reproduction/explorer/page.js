"use strict";
// This script draws the page. The numbers come from `engine`, except for solutions and events of the flow, which fwflow
// computed when it wrote the page.
const page = JSON.parse(document.getElementById("data").textContent);
const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];

const AT_M = ["The solution is m, and the gradient there is zero."], STEEP = "The gradient there is not zero.";
/** Name of a position of m, and sentences about it. */
const PLACES = {
  inside: ["inside", "The minimiser m of f is inside the set.", ...AT_M],
  edge: ["on an edge", "The minimiser m of f is on an edge.", ...AT_M],
  outside: ["beyond an edge", "The minimiser m of f is beyond an edge.",
    "The solution is a point of that edge, between its two ends.", STEEP],
  vertex: ["at a vertex", "The minimiser m of f is a vertex.", ...AT_M],
  corner: ["beyond a vertex", "The minimiser m of f is beyond a vertex.", "The solution is that vertex.", STEEP],
};
const SMOOTH_PLACES = {
  ...PLACES,
  edge: ["on the boundary", "The minimiser m of f is on the boundary.", ...AT_M],
  outside: ["outside", "The minimiser m of f is outside the set.", "The solution is on the boundary.", STEEP],
};
function placeOf(scene, key) {
  const [text, ...sentences] = (scene.corners ? PLACES : SMOOTH_PLACES)[key];
  return { value: key, text, hint: sentences.join(" ") };
}
const VARIANTS = { plain: "plain", search: "line search", exact: "exact search", momentum: "momentum" };
const ADDED = { plain: "", search: " with line search", exact: " with exact line search", momentum: " with momentum" };
const TITLES = { error: "Error f − f*", gap: "Frank-Wolfe gap", distance: "Distance to the flow" };
const ICONS = {
  triangle: "M2 18 L11 3 L20 18 Z",
  square: "M4 4 H18 V18 H4 Z",
  l1: "M11 2 L20 11 L11 20 L2 11 Z",
  disc: "M11 3 A8 8 0 1 1 10.99 3 Z",
  ellipse: "M3 13 A9 5 -20 1 1 19 9 A9 5 -20 1 1 3 13 Z",
  polygon: "M7 3 L16 4 L20 11 L15 19 L6 18 L2 10 Z",
};
const ZOOMS = [1, 3, 9];
const SEARCHES = ["search", "exact"];
const OWN = "own"; // key of the tableau that the reader types

// ---- The state, and its form in the address ----

const catalogue = Object.fromEntries(Object.entries(page.tableaus).map(([name, { label, drawing }]) => (
  [name, { label, ...engine.readTableau(drawing) }])));
const keyOf = (m) => `${m.tableau},${m.c},${m.delta},${m.variant}`;
const problemKey = (s) => `${s.set},${s.place},${s.shape}`;
const tableauOf = (m) => (m.tableau === OWN ? m.own : catalogue[m.tableau]);
const labelOf = (m) => (m.tableau === OWN ? "Your tableau" : tableauOf(m).label);
const nameOf = (m) => labelOf(m) + ADDED[m.variant];
const scheduleOf = (m) => `c = ${m.c}, Δ = ${m.delta}`;
const shownPanes = (s) => (s.two ? ["a", "b"] : ["a"]);
const lastOf = (s) => s.steps + 1; // iterates are counted from 1, as in the paper's triangle experiment

/** A problem with everything that the engine needs. */
function problemOf(s) {
  const set = page.scenes[s.set];
  return { ...page.problems[problemKey(s)], set, start: set.start, H: page.shapes[s.shape].H };
}

function initial() {
  const method = (tableau) => ({ tableau, c: 2, delta: 1, variant: "plain", own: catalogue.rk44 });
  return {
    set: "triangle", place: "edge", shape: "round", zoom: 1, two: true, steps: page.steps[0],
    a: method("fw"), b: method("rk44"), k: 4, theme: null,
  };
}

/** A drawing in the address: semicolons between rows, and underscores between entries. */
const toAddress = (drawing) => drawing.replaceAll("\n", ";").replaceAll(" ", "_");

function toFragment(s) {
  const parts = { set: s.set, at: s.place, f: s.shape, a: keyOf(s.a), b: keyOf(s.b), k: s.k };
  for (const pane of ["a", "b"]) if (s[pane].tableau === OWN) parts[`own_${pane}`] = toAddress(s[pane].own.drawing);
  if (s.steps !== page.steps[0]) parts.steps = s.steps;
  if (!s.two) parts.only = "a";
  if (s.zoom !== 1) parts.zoom = s.zoom;
  if (s.theme) parts.theme = s.theme;
  return "#" + Object.entries(parts).map(([name, value]) => `${name}=${value}`).join("&");
}

/** The method in a part of the address, or null if it is not valid. */
function readMethod(text, drawing) {
  const [tableau, c, delta, variant, ...more] = text.split(",");
  const known = (values, value) => values.map(String).includes(value);
  if (more.length || !known(page.c, c) || !known(page.delta, delta)) return null;
  if (!known(Object.keys(VARIANTS), variant)) return null;
  if (variant !== "plain" && delta !== "1") return null;
  const m = { tableau, c: Number(c), delta: Number(delta), variant, own: catalogue.rk44 };
  if (Object.hasOwn(catalogue, tableau)) return m;
  try {
    return tableau === OWN ? { ...m, own: checkedTableau(drawing ?? "") } : null;
  } catch {
    return null;
  }
}

/** The tableau of a drawing, if all schedules of the page are defined at all of its stages from the first step on. */
function checkedTableau(drawing) {
  const tableau = engine.readTableau(drawing), c = Math.min(...page.c), delta = Math.max(...page.delta);
  if (engine.definedFrom(tableau, { c, delta }) > 1) {
    const row = tableau.omega.indexOf(Math.min(...tableau.omega));
    throw new Error(`Row ${row} of A sums to ${tableau.omega[row]}. The sum is the time of a stage, relative to the start `
      + `of the step. In the first step, the schedule is defined only for sums greater than ${-1 - c / delta}.`);
  }
  return tableau;
}

/** The state in a fragment of the address; missing or invalid parts have their initial values. */
function fromFragment(text) {
  const s = initial(), given = Object.fromEntries(new URLSearchParams(text.replace(/^#/, "")));
  const known = (name, among) => Object.hasOwn(given, name) && among.includes(given[name]);
  if (known("set", Object.keys(page.scenes))) s.set = given.set;
  if (known("at", Object.keys(PLACES))) s.place = given.at;
  if (known("f", Object.keys(page.shapes))) s.shape = given.f;
  for (const pane of ["a", "b"]) s[pane] = readMethod(given[pane] ?? "", given[`own_${pane}`]) ?? s[pane];
  if (known("steps", page.steps.map(String))) s.steps = Number(given.steps);
  if (Number(given.k) >= 1) s.k = Math.min(Math.round(Number(given.k)), lastOf(s));
  if (known("zoom", ZOOMS.map(String))) s.zoom = Number(given.zoom);
  if (known("theme", ["light", "dark"])) s.theme = given.theme;
  s.two = given.only !== "a";
  return settled(s);
}

/** Sets without corners have no vertices, so m cannot be at one or beyond one. */
function settled(s) {
  const { places } = page.scenes[s.set];
  if (!places.includes(s.place)) s.place = s.place === "corner" ? "outside" : "edge";
  s.k = Math.min(s.k, lastOf(s));
  return s;
}

// ---- Numbers ----

let known = { key: null, flow: null };

/** The flow of a problem until the last iterate of every schedule; the last one is kept, because both panes need it. */
function flowOf(s) {
  const key = `${problemKey(s)},${s.steps}`;
  if (known.key !== key) {
    const tauEnd = Math.max(...page.c.map((c) => engine.tauOf({ c, delta: 1 }, lastOf(s))));
    known = { key, flow: engine.flow(problemOf(s), tauEnd, catalogue.rk44) };
  }
  return known.flow;
}

/** A run with the flow at the times of its iterates. */
function computeRun(s, pane) {
  const m = s[pane], tableau = tableauOf(m), run = engine.run(problemOf(s), m, tableau, s.steps);
  const { curve, at } = flowOf(s), flow = run.x.map((_, j) => at(engine.tauOf(m, j + 1)));
  const distance = run.x.map((x, j) => engine.positive(far(x, flow[j])));
  const bound = (k) => run.error[0] * ((m.c + m.delta) / (m.c + k * m.delta)) ** m.c;
  const end = run.x.length - 1; // the last iterate; a run that diverges ends early
  return { ...run, pane, method: m, tableau, q: tableau.q, curve, flow, distance, bound, end };
}

// ---- Numbers as text ----

const minus = (text) => text.replace("-", "−");
/** Two digits; null stands for values that are zero up to rounding or negative, undefined for the time after a run. */
function brief(v) {
  if (v === undefined) return "–";
  if (v === null) return "< 10⁻¹⁶";
  return v >= 1e-3 ? String(Number(v.toPrecision(2))) : minus(v.toExponential(1));
}
const decimal = (v) => (Math.abs(v) < 5e-4 ? "0" : minus(v.toFixed(Math.abs(v) < 0.1 ? 3 : 2)));
const precise = (v) => (Math.abs(v) < 1e-12 ? "0" : minus(String(Number(v.toPrecision(3)))));
const low = (text) => String(text).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]);

/** 1 2 3 5 is written 1–3,5. */
function ranges(members, dash) {
  const runs = [];
  for (const i of members) {
    if (runs.length && runs.at(-1).at(-1) === i - 1) runs.at(-1).push(i);
    else runs.push([i]);
  }
  return runs.map((r) => (r.length > 2 ? `${r[0]}${dash}${r.at(-1)}` : r.join(","))).join(",");
}

// ---- SVG ----

const px = (v) => v.toFixed(1);
const at = (p) => `${px(p[0])},${px(p[1])}`;
const far = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1]);
const line = (kind, p, q) =>
  `<line class="${kind}" x1="${px(p[0])}" y1="${px(p[1])}" x2="${px(q[0])}" y2="${px(q[1])}"/>`;
const dot = (kind, p, r, more = "") =>
  `<circle class="${kind}" cx="${px(p[0])}" cy="${px(p[1])}" r="${px(r)}" ${more}/>`;
const words = (kind, p, text, anchor = "start") =>
  `<text class="${kind}" x="${px(p[0])}" y="${px(p[1])}" text-anchor="${anchor}">${text}</text>`;
const polyline = (kind, points) => `<polyline class="${kind}" points="${points.map(at).join(" ")}"/>`;
const diamond = (kind, [x, y], r) =>
  `<path class="${kind}" d="M${at([x, y - r])} l${r},${r} -${r},${r} -${r},-${r} Z"/>`;
const square = (kind, [x, y], r) =>
  `<path class="${kind}" d="M${at([x - r, y - r])} h${2 * r} v${2 * r} h-${2 * r} Z"/>`;
const cross = (kind, [x, y], r) =>
  line(kind, [x - r, y - r], [x + r, y + r]) + line(kind, [x - r, y + r], [x + r, y - r]);
const plus = (kind, [x, y], r) => line(kind, [x - r, y], [x + r, y]) + line(kind, [x, y - r], [x, y + r]);
const plot = (parts, label, w, h) =>
  `<svg class="plot" viewBox="0 0 ${px(w)} ${px(h)}" height="${px(h)}" role="img" aria-label="${label}">`
  + `${parts.join("")}</svg>`;
const icon = (inner, size = 16) => `<svg viewBox="0 0 ${size} ${size}" aria-hidden="true">${inner}</svg>`;

/** Groups of points that overlap and share a label, with the numbers of their points, counted from 1. */
function clusters(points, reach) {
  const found = [];
  points.forEach((p, i) => {
    const near = found.find((c) => far(c.p, p) < reach);
    if (near) near.members.push(i + 1);
    else found.push({ p, members: [i + 1] });
  });
  return found;
}

/** From the plane to the pane: the whole set, or the solution magnified. */
function view(s, w, h) {
  const problem = problemOf(s), around = [...outlineOf(problem.set), problem.m], margin = 40;
  const [least, most] = [Math.min, Math.max].map((f) => [0, 1].map((i) => f(...around.map((p) => p[i]))));
  const fit = Math.min((w - 2 * margin) / (most[0] - least[0]), (h - 2 * margin) / (most[1] - least[1]));
  const centre = s.zoom > 1 ? problem.optimum : [(least[0] + most[0]) / 2, (least[1] + most[1]) / 2];
  const scale = fit * s.zoom;
  return { scale, to: (p) => [w / 2 + scale * (p[0] - centre[0]), h / 2 - scale * (p[1] - centre[1])] };
}

/** The corners of a polygon, or points on an ellipse. */
function outlineOf({ corners, axes, rotation }) {
  return corners ?? Array.from({ length: 180 }, (_, i) => {
    const u = axes[0] * Math.cos((i * Math.PI) / 90), v = axes[1] * Math.sin((i * Math.PI) / 90);
    return rotation.map(([along, across]) => along * u + across * v);
  });
}

function middleOf({ corners }) {
  return corners ? [0, 1].map((i) => corners.reduce((sum, p) => sum + p[i], 0) / corners.length) : [0, 0];
}

/** Twelve levels of f that are evenly spaced in its root; the ninth goes through the farthest point of the set. */
function levelsOf({ H, m, set }) {
  const root = ([x, y]) => Math.sqrt(H[0][0] * x * x + 2 * H[0][1] * x * y + H[1][1] * y * y);
  const furthest = Math.max(...outlineOf(set).map((p) => root([p[0] - m[0], p[1] - m[1]])));
  return Array.from({ length: 12 }, (_, i) => (furthest * (i + 1)) / 9);
}

/** Iterates before the current one that are drawn as dots. More would take long and be hidden by each other. */
const MOST_DOTS = 300;

function drawPlane(s, run, w, h) {
  const scene = page.scenes[s.set], problem = problemOf(s), bowl = page.shapes[s.shape];
  const { to, scale } = view(s, w, h), k = Math.min(s.k - 1, run.end), x = run.x.slice(0, k + 1).map(to), parts = [];
  const seen = (p) => p[0] > -5 && p[0] < w + 5 && p[1] > -5 && p[1] < h + 5;
  const outline = (kind) => `<polygon class="${kind}" points="${outlineOf(scene).map(to).map(at).join(" ")}"/>`;
  const m = to(problem.m), optimum = to(problem.optimum);
  const levels = levelsOf(problem).map((r) => {
    const [rx, ry] = bowl.axes.map((axis) => px(axis * r * scale));
    return `<ellipse class="level" rx="${rx}" ry="${ry}" transform="translate(${at(m)}) rotate(${-bowl.angle})"/>`;
  }).join("");

  parts.push(`<clipPath id="inside-${run.pane}">${outline("")}</clipPath>`, outline("set"));
  parts.push(`<g class="outer">${levels}</g><g clip-path="url(#inside-${run.pane})">${levels}</g>`);
  parts.push(polyline("flow", run.curve.map(to)), outline("edge"));
  parts.push(polyline("path", x));
  const before = x.slice(Math.max(0, k - MOST_DOTS), k), fade = (j) => px(0.3 + (0.7 * (j + 1)) / before.length);
  parts.push(...before.map((p, j) => dot("iterate", p, 2.4, `fill-opacity="${fade(j)}"`)));
  parts.push(square("mark", x[0], 4), cross("mark", optimum, 4));
  if (far(m, optimum) > 6) parts.push(plus("mark", m, 4), words("italic small halo", [m[0] + 8, m[1] + 4], "m"));
  if (k < run.end) parts.push(...drawStep(run, k, to, seen, to(middleOf(scene)), w, h));
  const from = arriving && k ? x[k - 1].map((v, i) => px(v - x[k][i])) : null;
  const motion = from ? `style="animation: arrive .3s ease-out; --dx: ${from[0]}px; --dy: ${from[1]}px"` : "";
  parts.push(diamond("flow-now", to(run.flow[k]), 6), dot("current", x[k], 6.5, motion));
  if (!seen(x[k])) parts.push(words("small halo", [w / 2, h - 10], "the iterate is outside this view", "middle"));
  const where = run.x[k].map((v) => minus(v.toFixed(3))).join(", ");
  return plot(parts, `${nameOf(run.method)} on the ${scene.label}: iterate ${k + 1} at ${where}`, w, h);
}

/** The step from iterate k: where its stages were, what the oracle answered there, and where it leads. */
function drawStep(run, k, to, seen, middle, w, h) {
  const stages = run.stages[k].map(to), targets = run.targets[k].map(to);
  const here = to(run.x[k]), next = to(run.x[k + 1]);
  const parts = stages.map((p, i) => line("aim", p, targets[i]));
  for (const { p, members } of clusters(targets, 18)) {
    const text = "s" + low(ranges(members, "₋")), half = 4 + 3.4 * text.length, out = 21 / (far(p, middle) || 1);
    const x = p[0] + out * (p[0] - middle[0]) * (1 + half / 40), y = p[1] + out * (p[1] - middle[1]) + 5;
    const spot = [Math.min(w - half - 4, Math.max(half + 4, x)), Math.min(h - 7, Math.max(15, y))];
    parts.push(dot("target", p, 7));
    if (seen(p)) parts.push(words("italic halo tone name", spot, text, "middle"));
  }
  parts.push(line("leap", here, next), ...stages.slice(1).map((p) => dot("stage", p, 4)));
  for (const { p, members } of clusters(stages.slice(1), 20)) {
    const text = ranges(members.map((i) => i + 1), "–"), away = far(p, here), out = (8 + 3 * text.length) / away;
    const spot = [p[0] + out * (p[0] - here[0]), p[1] + out * (p[1] - here[1]) + 4];
    if (away > 9) parts.push(words("small halo tone", spot, text, "middle"));
  }
  return [...parts, dot("next", next, 4.5)];
}

/** The weights p of the step. Heights are those of a step of unit length, numbers those of this step. */
function drawWeights(s, run, w) {
  const k = s.k - 1, h = 92, left = 30, parts = [];
  if (k >= run.end) return plot([], "The run ends here", w, h);
  const shares = run.shares.slice(0, page.steps[0]).flat().concat(run.shares[k]); // the weights settle soon
  const top = Math.max(...shares), bottom = Math.min(0, ...shares);
  const unit = (h - 42) / (top - bottom), zero = 18 + unit * top;
  const slot = Math.min(74, (w - left) / run.q), width = Math.min(34, 0.55 * slot);
  const p = run.shares[k].map((share) => share * run.lengths[k]);
  run.shares[k].forEach((share, i) => {
    const centre = left + slot * (i + 0.5), height = Math.max(0.8, Math.abs(share) * unit), negative = share < -1e-6;
    const y = negative ? zero : zero - height;
    parts.push(`<rect class="bar ${negative ? "negative" : ""}" x="${px(centre - width / 2)}" y="${px(y)}"`
      + ` width="${px(width)}" height="${px(height)}" rx="1.5"/>`);
    const above = [centre, negative ? y + height + 12 : y - 5];
    parts.push(words(negative ? "small bad" : "small", above, decimal(p[i]), "middle"));
    parts.push(words("italic small", [centre, negative ? zero - 5 : zero + 14], "s" + low(i + 1), "middle"));
  });
  parts.push(line("axis", [left, zero], [left + slot * run.q, zero]), words("italic name", [6, zero + 4], "p"));
  return plot(parts, `Weights p of the step: ${p.map(decimal).join(", ")}`, w, h);
}

function noteOn(s, run) {
  const k = s.k - 1, { delta, variant } = run.method;
  const t = `t = ${Number((s.k * delta).toFixed(2))}`;
  if (k >= run.end && run.end < s.steps) return `The run stops at k = ${run.end + 1}, because the iterate is too far away.`;
  if (k === run.end) return `${t}. The run ends here.`;
  const length = run.lengths[k], now = `${t}, γ = ${decimal(run.gammas[k] / delta)}. `;
  const total = length * run.shares[k].reduce((sum, share) => sum + share, 0);
  const below = run.shares[k].flatMap((share, i) => (share < -1e-6 ? [`p${low(i + 1)}`] : []));
  if (SEARCHES.includes(variant) && length < 1e-4) return `${now}The line search finds no step that decreases f.`;
  if (below.length) return `${now}${below.join(", ")} < 0: the step is no convex combination and may leave the set.`;
  if (SEARCHES.includes(variant)) return `${now}The line search takes a step of length ${decimal(length)}.`;
  return `${now}The next iterate is ${decimal(1 - total)} x plus vertices of total weight ${decimal(total)}.`;
}

/** Logarithmic axes around the values of both runs. */
function chartAxes(s, runs, quantity, w, h) {
  const logs = runs.flatMap((run) => run[quantity]).filter((v) => v !== null).map(Math.log10);
  const most = Math.max(...logs, -2), least = Math.min(...logs, most - 1), margin = 0.06 * (most - least);
  const last = lastOf(s), left = 44, right = w - 10, upper = 8, lower = h - 24, low = least - margin, high = most + margin;
  return {
    left, right, upper, lower, low, high,
    x: (k) => left + ((right - left) * Math.log(k)) / Math.log(last),
    y: (v) => lower - ((lower - upper) * (Math.log10(v) - low)) / (high - low),
    k: (x) => Math.round(last ** ((x - left) / (right - left))),
  };
}

function ticks(low, high) {
  const digits = high - low < 2.5 ? [1, 2, 5] : [1], every = Math.ceil((high - low) / 6), found = [];
  for (let e = Math.floor(low); e <= high; e++) {
    for (const digit of e % every ? [] : digits) {
      const v = digit * 10 ** e;
      if (Math.log10(v) < low || Math.log10(v) > high) continue;
      const power = `10<tspan dy="-4" font-size="8.5">${minus(String(e))}</tspan>`;
      found.push([v, Math.abs(e) <= 3 ? String(Number(v.toPrecision(1))) : power]);
    }
  }
  return found;
}

function drawChart(s, runs, quantity, axes, w, h) {
  const { x, y, left, right, upper, lower } = axes, parts = [];
  for (const [v, text] of ticks(axes.low, axes.high)) {
    parts.push(line("grid", [left, y(v)], [right, y(v)]), words("small", [left - 7, y(v) + 4], text, "end"));
  }
  const last = lastOf(s), marks = last > 100 ? [1, 10, 100, 1000] : [1, 2, 5, 10, 20];
  for (const k of marks.filter((k) => k < 0.7 * last)) {
    parts.push(line("axis", [x(k), lower], [x(k), lower + 4]), words("small", [x(k), lower + 17], k, "middle"));
  }
  parts.push(line("axis", [left, lower], [right, lower]), words("italic name", [right, lower + 17], "k", "end"));
  parts.push(line("cursor", [x(s.k), upper], [x(s.k), lower]));
  const { lines, labels } = quantity === "error" ? drawRates(s, runs, axes) : { lines: [], labels: [] };
  parts.push(...lines);
  for (const run of runs.toReversed()) {
    const here = run[quantity][s.k - 1] ?? null;
    const marker = here === null ? "" : dot("current", [x(s.k), y(here)], 5);
    parts.push(`<g class="${run.pane}"><path class="curve" d="${curveOf(run[quantity], axes)}"/>${marker}</g>`);
  }
  parts.push(...labels);
  const values = runs.map((run) => `${nameOf(run.method)} ${brief(run[quantity][s.k - 1])}`).join(", ");
  return plot(parts, `${TITLES[quantity]} against k; at k = ${s.k}: ${values}`, w, h);
}

/** The path of a curve. Of many values in one column of pixels, the first, the lowest and the highest are drawn. */
function curveOf(values, { x, y }) {
  const parts = [];
  let column = [], pen = false;
  const flush = () => {
    const extremes = [Math.min, Math.max].map((f) => column.indexOf(f(...column)));
    for (const i of column.length > 3 ? [0, ...extremes.sort((a, b) => a - b)] : column.keys()) {
      parts.push(`${pen ? "L" : "M"}${at([column.x, y(column[i])])}`);
      pen = true;
    }
    column = [];
  };
  values.forEach((v, j) => {
    if (v === null) {
      flush();
      pen = false;
    } else {
      if (column.length && x(j + 1) - column.x >= 0.7) flush();
      if (!column.length) column.x = x(j + 1);
      column.push(v);
    }
  });
  flush();
  return parts.join("");
}

/** Lines k⁻¹ and k⁻² and the bounds of the flow, all from the error at the start, and their labels below them. */
function drawRates(s, runs, { x, y, low, left, lower }) {
  const start = runs[0].error[0], last = lastOf(s), apart = 12;
  if (start === null) return { lines: [], labels: [] };
  const bounds = [...new Map(runs.map((run) => [scheduleOf(run.method), run])).values()];
  const differs = (name) => bounds.some((run) => run.method[name] !== bounds[0].method[name]);
  const label = ({ method: { c, delta } }) => (
    ["bound", ...(differs("c") ? [`c = ${c}`] : []), ...(differs("delta") ? [`Δ = ${delta}`] : [])].join(", "));
  const rates = [
    ["power", "k⁻¹", (k) => start / k],
    ["power", "k⁻²", (k) => start / k ** 2],
    ...bounds.map((run) => ["bound", label(run), run.bound]),
  ].map(([kind, text, value]) => {
    const ks = Array.from({ length: 61 }, (_, i) => last ** (i / 60)).filter((k) => value(k) >= 10 ** low);
    const points = ks.map((k) => [x(k), y(value(k))]), [right, bottom] = points.at(-1);
    return { kind, text, points, spot: [Math.max(left + 100, right - 8), bottom + 11] };
  });
  const spots = rates.map((rate) => rate.spot).sort((p, q) => p[1] - q[1]);
  spots.forEach((spot, i) => { if (i) spot[1] = Math.max(spot[1], spots[i - 1][1] + apart); });
  spots.forEach((spot, i) => { spot[1] = Math.min(spot[1], lower - 4 - apart * (spots.length - 1 - i)); });
  return {
    lines: rates.map(({ kind, points }) => polyline(`rate ${kind}`, points)),
    labels: rates.map(({ spot, text }) => words("small halo", spot, text, "end")),
  };
}

function caption(s) {
  const scene = page.scenes[s.set], bowl = page.shapes[s.shape], methods = shownPanes(s).map((pane) => s[pane]);
  const shown = methods.map((m) => `<b>${nameOf(m)}</b> (${scheduleOf(m)})`).join(" and ");
  const f = bowl.condition > 1 ? `½(x − m)ᵀH(x − m), condition number ${bowl.condition},` : "½‖x − m‖²";
  const followed = scene.corners ? "computed exactly" : "computed in small steps, because the set has no corners";
  const added = methods.some((m) => m.variant !== "plain") ? " Line searches and momentum use Δ = 1." : "";
  const key = (inner, text) => `<span class="key a">${icon(inner)} ${text}</span>`;
  return `${shown} on f = ${f} over the ${scene.label}. ${placeOf(scene, s.place).hint} Light lines are level sets of f.
    Symbols: ${key(square("mark", [8, 8], 4), "start")}; ${key(cross("mark", [8, 8], 4), "solution")};
    ${key(dot("iterate", [8, 8], 5), "iterate")}; ${key(dot("stage", [8, 8], 4), "stage points")} x̄₂, x̄₃, … of the step;
    ${key(dot("target", [8, 8], 6), "vertices")} sᵢ that the oracle returns;
    ${key(dot("next", [8, 8], 5), "next iterate")}; ${key('<path class="flow" d="M1 8 H15"/>', "the flow")}, ${followed};
    ${key(diamond("flow-now", [8, 8], 6), "the flow")} at the time of the iterate.
    The bars and their numbers are the weights p of the step x + Σ pᵢ (sᵢ − x). The heights are
    the weights divided by the step size, so that steps can be compared. A certificate also shows the numbers z = q p of
    the paper, where q is the number of stages.
    The panel of the error f − f* shows lines with the slopes of k⁻¹ and k⁻², and the bound of the flow, (c + Δ)ᶜ / (c + kΔ)ᶜ
    times the error at the start. Steps are counted from k = 1.${added} This page computes the runs itself.
    fwflow ${page.version} computed the solutions${scene.corners ? " and the exact flow" : ""}.`;
}

// ---- Controls ----

function group(name, label, choice, options, chosen) {
  const buttons = options.map(({ value, text, title, hint }) => `<button type="button" data-value="${value}"`
    + ` aria-pressed="${String(value) === String(chosen)}" ${hint ? `title="${hint}"` : ""}`
    + ` ${title ? `title="${title}" aria-label="${title}"` : ""}>${text}</button>`);
  const shown = name ? `<span class="name" aria-hidden="true">${name}</span>` : "";
  return `<div class="choice" role="group" aria-label="${label}" data-choice="${choice}">${shown}`
    + `<div class="options">${buttons.join("")}</div></div>`;
}

const named = (values, labels = {}) => values.map((value) => ({ value, text: labels[value] ?? value }));

function tableauMenu(pane, m) {
  const entries = [...Object.entries(catalogue).map(([name, { label }]) => [name, label]), [OWN, "Your own …"]];
  const options = entries.map(([value, text]) => (
    `<option value="${value}" ${value === m.tableau ? "selected" : ""}>${text}</option>`));
  return `<select data-menu="tableau" aria-label="Tableau of method ${pane.toUpperCase()}">${options.join("")}</select>`;
}

function drawControls(s) {
  const scene = page.scenes[s.set];
  const sets = Object.entries(page.scenes).map(([value, { label }]) => (
    { value, title: label, text: icon(`<path d="${ICONS[value]}"/>`, 22) }));
  const places = scene.places.map((key) => placeOf(scene, key));
  $("#problem").innerHTML = group("set", "Set", "set", sets, s.set)
    + group("minimiser m", "Position of the minimiser m of f", "place", places, s.place)
    + group("f", "Shape of f", "shape", named(Object.keys(page.shapes)), s.shape)
    + group("zoom", "Zoom on the solution", "zoom", ZOOMS.map((z) => ({ value: z, text: `${z}×` })), s.zoom)
    + group("steps", "Number of steps", "steps", named(page.steps), s.steps)
    + group("show", "Number of methods", "two", named(["one", "two"]), s.two ? "two" : "one");
  for (const pane of ["a", "b"]) {
    const m = s[pane];
    $(`.pane.${pane} .controls`).innerHTML = `<span class="badge" aria-hidden="true">${pane.toUpperCase()}</span>`
      + tableauMenu(pane, m)
      + group("c", "Constant c of the schedule", "c", named(page.c), m.c)
      + group("Δ", "Time step", "delta", named(page.delta), m.delta)
      + group("", "Line search or momentum", "variant", named(Object.keys(VARIANTS), VARIANTS), m.variant);
    $(`.pane.${pane} .editor`).hidden = m.tableau !== OWN;
  }
  const other = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
  $("#theme").textContent = other;
  $("#theme").setAttribute("aria-label", `${other} theme`);
}

function choose(pane, choice, value) {
  if (pane) {
    const m = state[pane];
    if (choice === "tableau" && value === OWN) startEditing(pane);
    m[choice] = ["c", "delta"].includes(choice) ? Number(value) : value;
    // As in the paper, line searches and momentum are shown for steps of length 1 only.
    if (choice === "delta" && m.delta !== 1) m.variant = "plain";
    if (choice === "variant" && value !== "plain") m.delta = 1;
  } else if (choice === "two") {
    state.two = value === "two";
  } else {
    state[choice] = ["zoom", "steps"].includes(choice) ? Number(value) : value;
  }
  settled(state);
  update();
}

/** Draw the controls again and keep the focus. */
function redrawControls() {
  const focused = document.activeElement?.closest("[data-value], [data-menu]"), { value, menu } = focused?.dataset ?? {};
  const pane = focused?.closest("[data-pane]")?.dataset.pane;
  const choice = focused?.closest("[data-choice]")?.dataset.choice;
  drawControls(state);
  if (focused) {
    const where = menu ? `[data-menu="${menu}"]` : `[data-choice="${choice}"] [data-value="${value}"]`;
    $(`${pane ? `.pane.${pane}` : "#problem"} ${where}`)?.focus();
  }
}

// ---- The tableau of the reader ----

/** Begin with the tableau that was shown. */
function startEditing(pane) {
  state[pane].own = tableauOf(state[pane]);
  $(`.pane.${pane} textarea`).value = state[pane].own.drawing;
  $(`.pane.${pane} .mistake`).textContent = "";
}

/** Read what is typed. A mistake is explained, and the last valid tableau stays in use. */
function readEditor(pane) {
  const { value } = $(`.pane.${pane} textarea`), field = $(`.pane.${pane} .mistake`);
  try {
    state[pane].own = checkedTableau(value);
    field.textContent = "";
  } catch (mistake) {
    field.textContent = mistake.message;
  }
  $(`.pane.${pane} textarea`).setAttribute("aria-invalid", String(field.textContent !== ""));
  update();
}

/** Order, stages and certificate of a tableau in sentences, with the weights at iterate k. */
function factsOn(s, run) {
  const { tableau, method } = run, k = Math.min(s.k, s.steps);
  const found = engine.certificate(tableau, method, k), from = found.feasibleFrom;
  const numbers = (v) => v.map(precise).join(", ");
  const combined = from === null
    ? "Steps at large k are not convex combinations, so iterates may leave the set."
    : `All steps${from > 1 ? ` from k = ${from}` : ""} are convex combinations.`;
  const stages = found.stagesFeasible ? "stage points stay in the set" : "stage points may leave the set";
  const size = `${tableau.q} stage${tableau.q > 1 ? "s" : ""}`;
  return `<b>Order ${tableau.order}</b>, ${size}. <b>Certificate</b> for ${scheduleOf(method)}: ${combined}
    At k = ${k}: ${stages}; <i>z</i> = ${numbers(found.z)}; <i>p</i> = ${numbers(found.p)}.`;
}

/** Put the tableaus of the state into the editors. */
function showDrawings() {
  for (const pane of ["a", "b"]) {
    $(`.pane.${pane} textarea`).value = state[pane].own.drawing;
    $(`.pane.${pane} .mistake`).textContent = "";
  }
}

// ---- Drawing and events ----

let state = fromFragment(location.hash), runs = [], timer = null, arriving = false, drawnFor = null;
const unhurried = matchMedia("(prefers-reduced-motion: reduce)");

/** Draw everything again: theme, controls, numbers, figures. */
function update() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = state.theme ?? (dark ? "dark" : "light");
  redrawControls();
  $("#figure").classList.toggle("single", !state.two);
  runs = shownPanes(state).map((pane) => computeRun(state, pane));
  $("#caption").innerHTML = caption(state);
  draw();
  $("main").setAttribute("aria-busy", "false");
}

const room = () => `${$("#figure").clientWidth} x ${innerHeight}`;

/** Shares of the height of the panes in a wide window. */
const CHART_SHARES = { error: 0.42, gap: 0.29, distance: 0.29 };

/** Draw everything that depends on k and on the size of the window; update the address unless playing. */
function draw() {
  drawnFor = room();
  const plane = $(".pane.a .plane"), w = plane.clientWidth, wide = innerWidth > 1120;
  // In a wide window all panes fit without scrolling.
  const below = innerHeight - plane.getBoundingClientRect().top - scrollY - $("#transport").offsetHeight - 225;
  const h = Math.max(250, Math.min(0.84 * w, wide ? below : 0.7 * innerHeight));
  for (const run of runs) {
    const pane = $(`.pane.${run.pane}`);
    $(".plane", pane).innerHTML = drawPlane(state, run, w, h);
    $(".weights", pane).innerHTML = drawWeights(state, run, w);
    $(".note", pane).textContent = noteOn(state, run);
    $(".facts", pane).innerHTML = factsOn(state, run);
  }
  const height = Math.max(...all(".pane").map((pane) => pane.offsetHeight));
  for (const chart of all(".chart")) {
    const quantity = chart.dataset.chart, value = (run) => brief(run[quantity][state.k - 1]);
    $(".values", chart).innerHTML = runs.map((run) => (
      `<span class="value ${run.pane}">${labelOf(run.method)} ${value(run)}</span>`)).join(" ");
    const share = (height - 40) * CHART_SHARES[quantity] - $("figcaption", chart).offsetHeight;
    const area = $(".area", chart), chartHeight = wide ? Math.max(110, Math.min(share, 300)) : 220;
    chart.axes = chartAxes(state, runs, quantity, area.clientWidth, chartHeight);
    area.innerHTML = drawChart(state, runs, quantity, chart.axes, area.clientWidth, chartHeight);
  }
  const last = lastOf(state);
  $("#k").max = last;
  $("#k").value = state.k;
  $("#k").setAttribute("aria-valuetext", `k = ${state.k}`);
  $("#now").textContent = `k = ${state.k} of ${last}`;
  if (!timer) history.replaceState(null, "", toFragment(state));
}

function go(k) {
  const last = lastOf(state), next = Math.min(last, Math.max(1, k));
  arriving = next === state.k + 1 && !unhurried.matches;
  state.k = next;
  if (state.k === last) pause();
  if (runs.length) draw();
  arriving = false;
}

function pause() {
  clearInterval(timer);
  timer = null;
  drawPlay();
}

function play() {
  if (timer) {
    pause();
  } else {
    if (state.k === lastOf(state)) state.k = 1;
    timer = setInterval(() => go(state.k + 1), unhurried.matches ? 1200 : 500);
  }
  drawPlay();
  draw();
}

const PLAY = "M5 3 L17 10 L5 17 Z", PAUSE = "M5 3 H8.5 V17 H5 Z M11.5 3 H15 V17 H11.5 Z";

function drawPlay() {
  $("#play").innerHTML = icon(`<path d="${timer ? PAUSE : PLAY}"/>`, 20);
  $("#play").setAttribute("aria-label", timer ? "Pause" : "Play");
}

const MOVES = {
  start: ["First iterate", "M4 3 H6.5 V17 H4 Z M17 3 L7.5 10 L17 17 Z", () => go(1)],
  back: ["One step back", "M15 3 L4 10 L15 17 Z", () => go(state.k - 1)],
  play: ["Play", PLAY, play],
  forward: ["One step forward", "M5 3 L16 10 L5 17 Z", () => go(state.k + 1)],
  end: ["Last iterate", "M13.5 3 H16 V17 H13.5 Z M3 3 L12.5 10 L3 17 Z", () => go(lastOf(state))],
};
const KEYS = { ArrowLeft: "back", ArrowRight: "forward", Home: "start", End: "end", " ": "play" };

for (const pane of all(".pane")) {
  const parts = ["controls", "editor", "plane", "weights", "note", "facts"];
  pane.innerHTML = parts.map((kind) => `<div class="${kind}"></div>`).join("");
  const name = pane.dataset.pane;
  $(".editor", pane).innerHTML = `<label for="drawing-${name}">Rows of A below the diagonal, then β in the last row.
    Row i has i entries. Entries are fractions or decimals, such as 1/6 or -0.5.</label>
    <textarea id="drawing-${name}" rows="5" spellcheck="false" autocapitalize="off" autocomplete="off"
      aria-describedby="mistake-${name}"></textarea><p class="mistake" id="mistake-${name}" role="status"></p>`;
  $("textarea", pane).addEventListener("input", () => readEditor(name));
}
for (const chart of all(".chart")) {
  const title = `<span class="title">${TITLES[chart.dataset.chart]}</span>`;
  chart.innerHTML = `<figcaption>${title}<span class="values"></span></figcaption><div class="area"></div>`;
  const scrub = (event) => go(chart.axes.k(event.clientX - $(".area", chart).getBoundingClientRect().left));
  chart.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".area")) return;
    chart.setPointerCapture(event.pointerId);
    scrub(event);
  });
  chart.addEventListener("pointermove", (event) => {
    if (chart.hasPointerCapture(event.pointerId)) scrub(event);
  });
}
$("#transport .buttons").innerHTML = Object.entries(MOVES).map(([id, [label, path]]) => (
  `<button id="${id}" type="button" aria-label="${label}">${icon(`<path d="${path}"/>`, 20)}</button>`)).join("");

// A click takes the focus from the button, so that space plays and arrows step. Tab still reaches every button.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (event.detail > 0) button.blur();
  if (button.id in MOVES) MOVES[button.id][2]();
  if (button.dataset.value) {
    const { choice } = button.closest("[data-choice]").dataset;
    choose(button.closest("[data-pane]")?.dataset.pane, choice, button.dataset.value);
  }
  if (button.id === "theme") {
    state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    update();
  }
});
document.addEventListener("change", (event) => {
  const menu = event.target.closest("[data-menu]");
  if (menu) choose(menu.closest("[data-pane]").dataset.pane, menu.dataset.menu, menu.value);
});
document.addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  // A focused button handles the space, a focused slider the arrows.
  if (event.target.closest(event.key === " " ? "button, select, textarea" : "input, select, textarea")) return;
  event.preventDefault();
  MOVES[KEYS[event.key]][2]();
});
$("#k").addEventListener("input", (event) => go(Number(event.target.value)));
addEventListener("hashchange", () => {
  state = fromFragment(location.hash);
  showDrawings();
  update();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
const resized = () => {
  if (runs.length && room() !== drawnFor) draw();
};
// Scroll bars change the width without a resize event. Drawing waits for the next frame, because it changes the height.
new ResizeObserver(() => requestAnimationFrame(resized)).observe($("#figure"));
addEventListener("resize", resized);

if ("toReversed" in Array.prototype) {
  showDrawings();
  update();
} else {
  $("#caption").textContent = "This page needs a browser from 2023 or later.";
}
