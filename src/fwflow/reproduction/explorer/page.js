"use strict";
// fwflow computed all numbers when it wrote the page. This script unpacks and draws them.
const page = JSON.parse(document.getElementById("data").textContent);
const last = page.iterations + 1; // iterates are counted from 1, as in the paper's triangle experiment
const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];

const VARIANTS = { plain: "plain", search: "line search", exact: "exact search", momentum: "momentum" };
const ADDED = { plain: "", search: " with line search", exact: " with exact line search", momentum: " with momentum" };
const TITLES = { gap: "Frank-Wolfe gap", distance: "Distance to the flow" };
const ICONS = {
  triangle: "M2 18 L11 3 L20 18 Z",
  square: "M4 4 H18 V18 H4 Z",
  l1: "M11 2 L20 11 L11 20 L2 11 Z",
  disc: "M11 3 A8 8 0 1 1 10.99 3 Z",
  polygon: "M7 3 L16 4 L20 11 L15 19 L6 18 L2 10 Z",
};
const ZOOMS = [1, 3, 9];
const SEARCHES = ["search", "exact"];

// ---- The state, and its form in the address ----

const tableaus = Object.keys(page.tableaus);
const first = (list, wanted) => (list.includes(wanted) ? wanted : list[0]);
const keyOf = (m) => `${m.tableau},${m.c},${m.delta},${m.variant}`;
const problemOf = (s) => page.problems[problemKey(s)];
const problemKey = (s) => `${s.set},${s.place},${s.shape}`;
const labelOf = (m) => page.labels[m.tableau];
const nameOf = (m) => labelOf(m) + ADDED[m.variant];
const shownPanes = (s) => (s.two ? ["a", "b"] : ["a"]);

function initial() {
  const method = (name) => ({
    tableau: first(tableaus, name), c: first(page.c, 2), delta: first(page.delta, 1), variant: "plain",
  });
  return {
    set: Object.keys(page.scenes)[0], place: "edge", shape: Object.keys(page.shapes)[0], zoom: 1, two: true,
    a: method("fw"), b: method("rk44"), k: Math.min(4, last), theme: null,
  };
}

function toFragment(s) {
  const parts = { set: s.set, at: s.place, f: s.shape, a: keyOf(s.a), b: keyOf(s.b), k: s.k };
  if (!s.two) parts.only = "a";
  if (s.zoom !== 1) parts.zoom = s.zoom;
  if (s.theme) parts.theme = s.theme;
  return "#" + Object.entries(parts).map(([name, value]) => `${name}=${value}`).join("&");
}

/** The state in a fragment of the address; missing or invalid parts have their initial values. */
function fromFragment(text) {
  const s = initial(), given = Object.fromEntries(new URLSearchParams(text.replace(/^#/, "")));
  const known = (name, among) => Object.hasOwn(given, name) && among.includes(given[name]);
  if (known("set", Object.keys(page.scenes))) s.set = given.set;
  if (known("at", Object.keys(page.places))) s.place = given.at;
  if (known("f", Object.keys(page.shapes))) s.shape = given.f;
  for (const pane of ["a", "b"]) {
    if (!known(pane, Object.keys(page.runs))) continue;
    const [tableau, c, delta, variant] = given[pane].split(",");
    s[pane] = { tableau, c: Number(c), delta: Number(delta), variant };
  }
  if (Number(given.k) >= 1) s.k = Math.min(Math.round(Number(given.k)), last);
  if (known("zoom", ZOOMS.map(String))) s.zoom = Number(given.zoom);
  if (known("theme", ["light", "dark"])) s.theme = given.theme;
  s.two = given.only !== "a";
  return settled(s);
}

/** The disc has no vertices, so m cannot be at one. */
function settled(s) {
  if (!page.scenes[s.set].places.includes(s.place)) s.place = "edge";
  return s;
}

// ---- Numbers ----

const tables = new Map();

/** One row per quantity and run, packed as 16-bit differences along k: all low bytes, then all high ones. */
async function unpack(key) {
  if (tables.has(key)) return tables.get(key);
  const packed = Uint8Array.from(atob(page.problems[key].data), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const table = new Int16Array(bytes.length / 2);
  for (let i = 0, sum = 0; i < table.length; i++) {
    const folded = bytes[i] | (bytes[table.length + i] << 8);
    sum = (i % last ? sum : 0) + ((folded >>> 1) ^ -(folded & 1));
    table[i] = sum;
  }
  tables.set(key, table);
  return table;
}

/** The rows of one run, in the order in which `_columns` of page.py writes them. */
function readRun(table, s, pane) {
  const m = s[pane], time = `${m.c},${m.delta}`, q = page.tableaus[m.tableau];
  const { coordinate, log, angle, step } = page.scales, corners = page.scenes[s.set].corners;
  const row = (r, scale) => Array.from(table.subarray(r * last, (r + 1) * last), (v) => v / scale);
  const points = (r) => row(r, coordinate).map((x, k) => [x, table[(r + 1) * last + k] / coordinate]);
  const logs = (r) => row(r, log).map((v) => (v > -15.9 ? 10 ** v : null)); // null: zero up to rounding
  const target = (v) => (corners ? corners[v] : [Math.cos(v / angle), Math.sin(v / angle)]);
  const r = page.runs[keyOf(m)], x = points(r), aims = r + 2 + 2 * q;
  return {
    pane, method: m, q, x,
    gap: logs(r + 2),
    distance: logs(r + 3),
    stages: [x, ...Array.from({ length: q - 1 }, (_, i) => points(r + 4 + 2 * i))],
    targets: Array.from({ length: q }, (_, i) => row(aims + i, 1).map(target)),
    lengths: row(aims + q, step),
    flow: points(page.flows[time]),
    gammas: page.gammas[time],
    shares: page.weights[`${m.tableau},${time}`],
  };
}

// ---- Numbers as text ----

const minus = (text) => text.replace("-", "−");
const brief = (v) => (v === null ? "≤ 0" : v >= 1e-3 ? String(Number(v.toPrecision(2))) : minus(v.toExponential(1)));
const decimal = (v) => (Math.abs(v) < 5e-4 ? "0" : minus(v.toFixed(Math.abs(v) < 0.1 ? 3 : 2)));
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
  const problem = problemOf(s), [least, most] = problem.box, margin = 40;
  const fit = Math.min((w - 2 * margin) / (most[0] - least[0]), (h - 2 * margin) / (most[1] - least[1]));
  const centre = s.zoom > 1 ? problem.optimum : [(least[0] + most[0]) / 2, (least[1] + most[1]) / 2];
  const scale = fit * s.zoom;
  return { scale, to: (p) => [w / 2 + scale * (p[0] - centre[0]), h / 2 - scale * (p[1] - centre[1])] };
}

function middleOf(corners) {
  return corners ? [0, 1].map((i) => corners.reduce((sum, p) => sum + p[i], 0) / corners.length) : [0, 0];
}

function drawPlane(s, run, w, h) {
  const scene = page.scenes[s.set], problem = problemOf(s), bowl = page.shapes[s.shape];
  const { to, scale } = view(s, w, h), k = s.k - 1, x = run.x.map(to), parts = [];
  const seen = (p) => p[0] > -5 && p[0] < w + 5 && p[1] > -5 && p[1] < h + 5;
  const outline = (kind) => (scene.corners
    ? `<polygon class="${kind}" points="${scene.corners.map(to).map(at).join(" ")}"/>`
    : dot(kind, to([0, 0]), scale));
  const m = to(problem.m), optimum = to(problem.optimum);
  const levels = problem.levels.map((r) => {
    const [rx, ry] = bowl.axes.map((axis) => px(axis * r * scale));
    return `<ellipse class="level" rx="${rx}" ry="${ry}" transform="translate(${at(m)}) rotate(${-bowl.angle})"/>`;
  }).join("");

  parts.push(`<clipPath id="inside-${run.pane}">${outline("")}</clipPath>`, outline("set"));
  parts.push(`<g class="outer">${levels}</g><g clip-path="url(#inside-${run.pane})">${levels}</g>`);
  parts.push(polyline("flow", problem.flow.map(to)), outline("edge"));
  parts.push(polyline("path", x.slice(0, k + 1)));
  const fade = (j) => `fill-opacity="${px(0.3 + (0.7 * (j + 1)) / k)}"`;
  parts.push(...x.slice(0, k).map((p, j) => dot("iterate", p, 2.4, fade(j))));
  parts.push(square("mark", x[0], 4), cross("mark", optimum, 4));
  if (far(m, optimum) > 6) parts.push(plus("mark", m, 4), words("italic small halo", [m[0] + 8, m[1] + 4], "m"));
  if (k < page.iterations) parts.push(...drawStep(run, k, to, seen, to(middleOf(scene.corners)), w, h));
  const from = arriving && k ? x[k - 1].map((v, i) => px(v - x[k][i])) : null;
  const motion = from ? `style="animation: arrive .3s ease-out; --dx: ${from[0]}px; --dy: ${from[1]}px"` : "";
  parts.push(diamond("flow-now", to(run.flow[k]), 6), dot("current", x[k], 6.5, motion));
  if (!seen(x[k])) parts.push(words("small halo", [w / 2, h - 10], "the iterate is outside this view", "middle"));
  const where = run.x[k].map((v) => minus(v.toFixed(3))).join(", ");
  return plot(parts, `${nameOf(run.method)} on the ${scene.label}: iterate ${s.k} at ${where}`, w, h);
}

/** The step from iterate k: where its stages were, what the oracle answered there, and where it leads. */
function drawStep(run, k, to, seen, middle, w, h) {
  const stages = run.stages.map((rows) => to(rows[k])), targets = run.targets.map((rows) => to(rows[k]));
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
  if (k === page.iterations) return plot([], "The run ends here", w, h);
  const shares = run.shares.flat(), top = Math.max(...shares), bottom = Math.min(0, ...shares);
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
  if (k === page.iterations) return `${t}; the run ends here.`;
  const length = run.lengths[k], now = `${t}, γ = ${decimal(run.gammas[k] / delta)}; `;
  const total = length * run.shares[k].reduce((sum, share) => sum + share, 0);
  const below = run.shares[k].flatMap((share, i) => (share < -1e-6 ? [`p${low(i + 1)}`] : []));
  if (below.length) return `${now}${below.join(", ")} < 0: no convex combination, the step may leave the set.`;
  if (SEARCHES.includes(variant)) {
    const found = length < 1e-4 ? "finds no step that decreases f" : `takes a step of ${decimal(length)}`;
    return `${now}the search ${found}.`;
  }
  return `${now}${decimal(1 - total)} of x stays, and vertices have the weight ${decimal(total)}.`;
}

/** Logarithmic axes around the values of both runs. */
function chartAxes(runs, quantity, w, h) {
  const logs = runs.flatMap((run) => run[quantity]).filter((v) => v !== null).map(Math.log10);
  const most = Math.max(...logs, -2), least = Math.min(...logs, most - 1), margin = 0.06 * (most - least);
  const left = 44, right = w - 10, upper = 8, lower = h - 24, low = least - margin, high = most + margin;
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
  for (const k of [1, 2, 5, 10, 20, 50, 100].filter((k) => k < 0.7 * last)) {
    parts.push(line("axis", [x(k), lower], [x(k), lower + 4]), words("small", [x(k), lower + 17], k, "middle"));
  }
  parts.push(line("axis", [left, lower], [right, lower]), words("italic name", [right, lower + 17], "k", "end"));
  parts.push(line("cursor", [x(s.k), upper], [x(s.k), lower]));
  for (const run of runs.toReversed()) {
    const points = run[quantity].map((v, j) => (v === null ? null : at([x(j + 1), y(v)])));
    const d = points.map((p, j) => (p === null ? "" : (points[j - 1] ? "L" : "M") + p)).join("");
    const here = run[quantity][s.k - 1];
    const marker = here === null ? "" : dot("current", [x(s.k), y(here)], 5);
    parts.push(`<g class="${run.pane}"><path class="curve" d="${d}"/>${marker}</g>`);
  }
  const values = runs.map((run) => `${nameOf(run.method)} ${brief(run[quantity][s.k - 1])}`).join(", ");
  return plot(parts, `${TITLES[quantity]} against k; at k = ${s.k}: ${values}`, w, h);
}

function caption(s) {
  const scene = page.scenes[s.set], bowl = page.shapes[s.shape], methods = shownPanes(s).map((pane) => s[pane]);
  const shown = methods.map((m) => `<b>${nameOf(m)}</b> (c = ${m.c}, Δ = ${m.delta})`).join(" and ");
  const where = scene.corners || s.place !== "edge" ? page.places[s.place] : "on the boundary";
  const f = bowl.condition > 1 ? `½(x − m)ᵀH(x − m), condition number ${bowl.condition},` : "½‖x − m‖²";
  const small = `${page.labels[page.discFlow.method]}, Δ = ${page.discFlow.delta}`;
  const followed = scene.corners
    ? "exact, from event to event"
    : `followed in small steps (${small}), as the disc has no corners`;
  const added = methods.some((m) => m.variant !== "plain") ? " Line searches and momentum come with Δ = 1." : "";
  const key = (inner, text) => `<span class="key a">${icon(inner)} ${text}</span>`;
  return `${shown} on f = ${f} over the ${scene.label}, m ${where}. Light lines are level sets of f.
    ${key(square("mark", [8, 8], 4), "start")}, ${key(cross("mark", [8, 8], 4), "solution")},
    ${key(dot("iterate", [8, 8], 5), "iterate")}, ${key(dot("stage", [8, 8], 4), "stage points")} x̄₂, x̄₃, … where the
    oracle is called again, ${key(dot("target", [8, 8], 6), "its vertices")} sᵢ,
    ${key(dot("next", [8, 8], 5), "next iterate")}, ${key('<path class="flow" d="M1 8 H15"/>', "the flow")}, ${followed},
    ${key(diamond("flow-now", [8, 8], 6), "its position")} at this time.
    Bars are the weights p of the step x + Σ pᵢ (sᵢ − x), scaled to a step of length 1.
    Steps are counted from k = 1.${added} Computed by fwflow ${page.version}.`;
}

// ---- Controls ----

function group(name, label, choice, options, chosen) {
  const buttons = options.map(({ value, text, title, disabled }) => `<button type="button" data-value="${value}"`
    + ` aria-pressed="${String(value) === String(chosen)}" ${disabled ? "disabled" : ""}`
    + ` ${title ? `title="${title}" aria-label="${title}"` : ""}>${text}</button>`);
  const shown = name ? `<span class="name" aria-hidden="true">${name}</span>` : "";
  return `<div class="choice" role="group" aria-label="${label}" data-choice="${choice}">${shown}`
    + `<div class="options">${buttons.join("")}</div></div>`;
}

const named = (values, labels = {}) => values.map((value) => ({ value, text: labels[value] ?? value }));

function drawControls(s) {
  const scene = page.scenes[s.set];
  const sets = Object.entries(page.scenes).map(([value, { label }]) => (
    { value, title: label, text: icon(`<path d="${ICONS[value]}"/>`, 22) }));
  const places = Object.entries(page.places).map(([value, text]) => ({
    value, disabled: !scene.places.includes(value), text: value === "edge" && !scene.corners ? "on the boundary" : text,
  }));
  $("#problem").innerHTML = group("set", "Set", "set", sets, s.set)
    + group("m", "Where the minimiser m of f lies", "place", places, s.place)
    + group("f", "Shape of f", "shape", named(Object.keys(page.shapes)), s.shape)
    + group("zoom", "Zoom on the solution", "zoom", ZOOMS.map((z) => ({ value: z, text: `${z}×` })), s.zoom)
    + group("show", "Methods side by side", "two", named(["one", "two"]), s.two ? "two" : "one");
  for (const pane of ["a", "b"]) {
    const m = s[pane];
    $(`.pane.${pane} .controls`).innerHTML = `<span class="badge" aria-hidden="true">${pane.toUpperCase()}</span>`
      + group("", "Tableau", "tableau", named(tableaus, page.labels), m.tableau)
      + group("c", "c of the schedule", "c", named(page.c), m.c)
      + group("Δ", "Step in time", "delta", named(page.delta), m.delta)
      + group("", "Line search or momentum", "variant", named(page.variants, VARIANTS), m.variant);
  }
  const other = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
  $("#theme").textContent = other;
  $("#theme").setAttribute("aria-label", `${other} theme`);
}

function choose(pane, choice, value) {
  if (pane) {
    const m = state[pane];
    m[choice] = ["c", "delta"].includes(choice) ? Number(value) : value;
    // As in the paper, line searches and momentum are shown for steps of length 1 only.
    if (choice === "delta" && m.delta !== 1) m.variant = "plain";
    if (choice === "variant" && value !== "plain") m.delta = 1;
  } else if (choice === "two") {
    state.two = value === "two";
  } else {
    state[choice] = choice === "zoom" ? Number(value) : value;
  }
  settled(state);
  update();
}

/** Draw the controls again and keep the focus. */
function redrawControls() {
  const focused = document.activeElement?.closest("[data-value]"), pane = focused?.closest("[data-pane]")?.dataset.pane;
  const choice = focused?.closest("[data-choice]").dataset.choice;
  drawControls(state);
  if (focused) {
    const where = `${pane ? `.pane.${pane}` : "#problem"} [data-choice="${choice}"]`;
    $(`${where} [data-value="${focused.dataset.value}"]`).focus();
  }
}

// ---- Drawing and events ----

let state = fromFragment(location.hash), runs = [], timer = null, turn = 0, arriving = false, drawnFor = null;
const unhurried = matchMedia("(prefers-reduced-motion: reduce)");

/** Draw everything again: theme, controls, numbers, figures. */
async function update() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = state.theme ?? (dark ? "dark" : "light");
  redrawControls();
  $("#figure").classList.toggle("single", !state.two);
  $("main").setAttribute("aria-busy", "true");
  const mine = ++turn, table = await unpack(problemKey(state));
  if (mine !== turn) return; // another choice was made meanwhile
  runs = shownPanes(state).map((pane) => readRun(table, state, pane));
  $("#caption").innerHTML = caption(state);
  draw();
  $("main").setAttribute("aria-busy", "false");
}

const room = () => `${$("#figure").clientWidth} x ${innerHeight}`;

/** Draw everything that depends on k and on the size of the window; update the address unless playing. */
function draw() {
  drawnFor = room();
  const plane = $(".pane.a .plane"), w = plane.clientWidth, wide = innerWidth > 1120;
  // In a wide window all panes fit without scrolling.
  const below = innerHeight - plane.getBoundingClientRect().top - scrollY - $("#transport").offsetHeight - 125;
  const h = Math.max(280, Math.min(0.84 * w, wide ? below : 0.7 * innerHeight));
  for (const run of runs) {
    const pane = $(`.pane.${run.pane}`);
    $(".plane", pane).innerHTML = drawPlane(state, run, w, h);
    $(".weights", pane).innerHTML = drawWeights(state, run, w);
    $(".note", pane).textContent = noteOn(state, run);
  }
  for (const chart of all(".chart")) {
    const quantity = chart.dataset.chart, value = (run) => brief(run[quantity][state.k - 1]);
    $(".values", chart).innerHTML = runs.map((run) => (
      `<span class="value ${run.pane}">${labelOf(run.method)} ${value(run)}</span>`)).join(" ");
    const half = $(".pane.a").offsetHeight / 2 - $("figcaption", chart).offsetHeight - 22;
    const area = $(".area", chart), chartHeight = wide ? Math.max(140, half) : 200;
    chart.axes = chartAxes(runs, quantity, area.clientWidth, chartHeight);
    area.innerHTML = drawChart(state, runs, quantity, chart.axes, area.clientWidth, chartHeight);
  }
  $("#k").max = last;
  $("#k").value = state.k;
  $("#k").setAttribute("aria-valuetext", `k = ${state.k}`);
  $("#now").textContent = `k = ${state.k} of ${last}`;
  if (!timer) history.replaceState(null, "", toFragment(state));
}

function go(k) {
  const next = Math.min(last, Math.max(1, k));
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
    if (state.k === last) state.k = 1;
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
  end: ["Last iterate", "M13.5 3 H16 V17 H13.5 Z M3 3 L12.5 10 L3 17 Z", () => go(last)],
};
const KEYS = { ArrowLeft: "back", ArrowRight: "forward", Home: "start", End: "end", " ": "play" };

for (const pane of all(".pane")) {
  const parts = ["controls", "plane", "weights", "note"];
  pane.innerHTML = parts.map((kind) => `<div class="${kind}"></div>`).join("");
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
document.addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  // A focused button handles the space, a focused slider the arrows.
  if (event.target.closest(event.key === " " ? "button" : "input")) return;
  event.preventDefault();
  MOVES[KEYS[event.key]][2]();
});
$("#k").addEventListener("input", (event) => go(Number(event.target.value)));
addEventListener("hashchange", () => {
  state = fromFragment(location.hash);
  update();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
const resized = () => {
  if (runs.length && room() !== drawnFor) draw();
};
new ResizeObserver(resized).observe($("#figure")); // scroll bars change the width without a resize event
addEventListener("resize", resized);

if ("DecompressionStream" in window) update();
else $("#caption").textContent = "This browser cannot unpack the numbers of the page; any of 2023 or later can.";
