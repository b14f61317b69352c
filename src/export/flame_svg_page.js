// flame_svg_page.js - the flame graph that moves: reads the frames from <metadata>, takes the
// still picture's place, and draws the rows that are on the screen. Runs inside the SVG file
// with nothing from elsewhere. Names are hostile: they are only ever set as text.
"use strict";
(function () {
const SVG = "http://www.w3.org/2000/svg", HTML = "http://www.w3.org/1999/xhtml";
// Pixels: of a row, of a frame that is drawn, and of one that is an element of its own.
const ROW = 17, LEAST = 0.4, ELEMENT = 2;
const root = document.documentElement;
if (root.namespaceURI !== SVG)
	return; // pasted into a page: the still picture stays

// ---- data ----

function lists(name) {
	const all = [];
	for (const e of root.querySelectorAll("metadata." + name))
		for (const v of JSON.parse(e.textContent))
			all.push(v);
	return all;
}

const about = JSON.parse(root.querySelector("metadata.about").textContent);
const strings = lists("strings"), frames = lists("frames"), numbers = lists("rows");
const stride = about.differential ? 7 : 4;
const count = numbers.length / stride;
const depth = new Uint32Array(count), frame = new Int32Array(count), level = new Int8Array(count);
const total = [new Float64Array(count), new Float64Array(count)];
const self = [new Float64Array(count), new Float64Array(count)];
const start = [new Float64Array(count), new Float64Array(count)]; // where it begins, in weight
const parent = new Int32Array(count);
const end = new Uint32Array(count);	// of its descendants: they are i + 1 to end - 1
const deepest = new Uint32Array(count); // depth below it
const levels = [];			// rows by depth, in order

function load() {
	const open = [], next = [[0], [0]];
	for (let i = 0; i < count; i++) {
		const at = i * stride, d = numbers[at];
		depth[i] = d;
		frame[i] = numbers[at + 1];
		for (let w = 0; w < 2; w++) {
			const has = w === 0 || about.differential;
			total[w][i] = has ? numbers[at + 2 + 2 * w] : 0;
			self[w][i] = has ? numbers[at + 3 + 2 * w] : 0;
			start[w][i] = next[w][d];
			next[w][d] += total[w][i];
			next[w][d + 1] = start[w][i];
		}
		level[i] = about.differential ? numbers[at + 6] : 0;
		while (open.length > d)
			end[open.pop()] = i;
		parent[i] = d ? open[d - 1] : -1;
		open.push(i);
		(levels[d] = levels[d] || []).push(i);
	}
	while (open.length)
		end[open.pop()] = count;
	for (let i = count - 1; i >= 0; i--) {
		deepest[i] = Math.max(deepest[i], depth[i]);
		if (i)
			deepest[parent[i]] = Math.max(deepest[parent[i]], deepest[i]);
	}
}

function nameOf(i) {
	if (i === 0)
		return "all";
	if (frame[i] < 0)
		return "[" + -frame[i] + " smaller]";
	return strings[frames[frame[i]][1]] || "[unknown]";
}

// ---- amounts ----

const SCALES = {ns: [1000, ["ns", "\u00b5s", "ms", "s"]],
	bytes: [1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]]};

function amount(v) {
	const scale = SCALES[about.unit];
	if (!scale)
		return v.toLocaleString("en");
	let n = 0;
	while (n + 1 < scale[1].length && Math.abs(v) >= scale[0]) {
		v /= scale[0];
		n++;
	}
	const a = Math.abs(v);
	return v.toFixed(!n || a >= 100 ? 0 : a >= 10 ? 1 : 2) + " " + scale[1][n];
}

function share(v, of) {
	return (of ? 100 * v / of : 0).toFixed(2) + " %";
}

// ---- the page ----

function element(name, className, text) {
	const e = document.createElementNS(HTML, name);
	if (className)
		e.className = className;
	if (text !== undefined)
		e.textContent = text;
	return e;
}

function shape(name, attributes) {
	const e = document.createElementNS(SVG, name);
	for (const key in attributes)
		e.setAttribute(key, attributes[key]);
	return e;
}

function button(text, hint, act) {
	const e = element("button", "", text);
	e.type = "button";
	e.title = hint;
	e.addEventListener("click", act);
	return e;
}

const input = element("input"), matched = element("output", "matched");
const plot = element("div", "plot"), tip = element("div", "tip");
const picture = shape("svg", {role: "img"});
const resetButton = button("Reset zoom", "Escape", () => zoom(0));
const turnButton = button("Icicle", "i", turn);
const widthButton = button("Widths of base", "b", swapWidths);
let focus = 0, chosen = -1, icicle = false, which = 0;
let term = "", hits = null; // by frame number, null: no search
let charWidth = 6.7;

function legend() {
	const box = element("div", "legend");
	const add = (color, text) => {
		const item = element("span"), swatch = element("span", "swatch");
		swatch.style.background = color;
		item.append(swatch, text);
		box.append(item);
	};
	if (about.differential) {
		add("rgb(var(--grew))", "more than in the base");
		add("rgb(var(--shrank))", "less");
		add("var(--other)", "the same");
	} else {
		const seen = new Set(frames.slice(1).map((f) => f[0]));
		if (frame.some((f) => f < 0))
			seen.add(about.other); // merged frames
		about.kinds.forEach((k, i) => seen.has(i) && add("var(--" + k[0] + ")", k[1]));
	}
	return box;
}

function keys() {
	const box = element("span", "keys");
	const rows = [["click", "zooms"], ["/", "searches"], ["Esc", "resets"], ["i", "turns"]];
	for (const [key, what] of rows.concat(about.differential ? [["b", "base"]] : []))
		box.append(element("kbd", "", key), " " + what + "  ");
	return box;
}

function build() {
	const subtitle = document.getElementById("subtitle").textContent;
	const outer = shape("foreignObject", {x: 0, y: 0, width: "100%", height: "100%"});
	const app = element("div", "app"), header = element("header"), tools = element("div", "tools");
	const heading = element("div", "heading"), footer = element("footer");
	heading.append(element("h1", "", about.title), element("p", "", subtitle));
	input.type = "search";
	input.placeholder = "Search";
	input.title = "Part of a name, or a regular expression";
	input.setAttribute("aria-label", "Search frames");
	matched.setAttribute("aria-live", "polite");
	tools.append(matched, input, resetButton, turnButton);
	if (about.differential)
		tools.append(widthButton);
	header.append(heading, tools);
	plot.tabIndex = 0;
	plot.setAttribute("aria-label", "Flame graph");
	plot.append(picture);
	footer.append(legend(), keys());
	app.append(header, plot, footer, tip);
	outer.append(app);
	document.getElementById("still").remove();
	root.removeAttribute("viewBox");
	root.setAttribute("width", "100%");
	root.setAttribute("height", "100%");
	root.append(outer);
	const probe = shape("text", {x: 0, y: 0});
	probe.textContent = "M".repeat(100);
	picture.append(probe);
	charWidth = probe.getComputedTextLength() / 100 || charWidth;
}

// ---- drawing ----

function width() {
	return Math.max(plot.clientWidth - 20, 100);
}

function fit(text, room) {
	const max = Math.floor(room / charWidth);
	if (max < 3)
		return "";
	let columns = 0, cut = 0;
	for (const c of text) {
		columns += c.codePointAt(0) >= 0x1100 ? 2 : 1;
		if (columns < max)
			cut += c.length;
		if (columns > max)
			return text.slice(0, cut) + "\u2026";
	}
	return text;
}

function classOf(i) {
	if (about.differential)
		return level[i] ? (level[i] > 0 ? "grew l" : "shrank l") + Math.abs(level[i]) : "same";
	const f = frame[i] < 0 ? [about.other, 0, 0, 0, 0, 0] : frames[frame[i]];
	return about.kinds[f[0]][0] + " s" + f[5];
}

function isHit(i) {
	return hits !== null && i > 0 && frame[i] >= 0 && hits[frame[i]] === 1;
}

// Thousands of narrow frames are one path for each class: elements are what takes time.
function drawFrame(out, i, x, w, y, above) {
	const extra = (above ? " above" : "") + (isHit(i) ? " hit" : "");
	if (w < ELEMENT) {
		const name = classOf(i) + extra, d = out.paths.get(name) || [];
		d.push("M" + x.toFixed(2) + " " + y + "h" + w.toFixed(2) + "v16h-" + w.toFixed(2) + "z");
		out.paths.set(name, d);
		return;
	}
	const r = shape("rect", {x: x.toFixed(2), y: y, width: Math.max(w - 0.5, 0.3).toFixed(2),
		height: ROW - 1, rx: w > 4 ? 1.5 : 0, "class": classOf(i) + extra, "data-i": i});
	if (i === chosen)
		r.classList.add("over");
	out.elements.append(r);
	const text = fit(nameOf(i), w - 6);
	if (text) {
		const t = shape("text", {x: (x + 3).toFixed(2), y: y + 12, "class": extra.trim()});
		t.textContent = text;
		out.elements.append(t);
	}
}

// First place in a level's list whose row is not before i.
function lowerBound(list, i) {
	let from = 0, to = list.length;
	while (from < to) {
		const mid = (from + to) >> 1;
		if (list[mid] < i)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

function ancestor(i, d) {
	while (depth[i] > d)
		i = parent[i];
	return i;
}

function yOf(d) {
	return (icicle ? d : deepest[focus] - d) * ROW;
}

function draw() {
	const all = width(), height = (deepest[focus] + 1) * ROW;
	picture.setAttribute("width", all);
	picture.setAttribute("height", height);
	picture.classList.toggle("searching", hits !== null);
	const out = {elements: document.createDocumentFragment(), paths: new Map()};
	const top = plot.scrollTop - 10 * ROW, bottom = plot.scrollTop + plot.clientHeight + 10 * ROW;
	const scale = total[which][focus] ? all / total[which][focus] : 0;
	for (let d = 0; d <= deepest[focus]; d++) {
		const y = yOf(d);
		if (y + ROW < top || y > bottom)
			continue;
		if (d <= depth[focus]) {
			drawFrame(out, ancestor(focus, d), 0, all, y, d < depth[focus]);
			continue;
		}
		const list = levels[d];
		// Frames too narrow to be seen are drawn as one with the next that they touch.
		let from = -1, last = -1;
		for (let k = lowerBound(list, focus); k < list.length && list[k] < end[focus]; k++) {
			const i = list[k];
			const x = (start[which][i] - start[which][focus]) * scale;
			const right = x + total[which][i] * scale;
			if (from < 0 || x > last + 0.01)
				from = x;
			last = right;
			if (right - from < LEAST)
				continue;
			drawFrame(out, i, from, right - from, y, false);
			from = -1;
		}
	}
	for (const [name, d] of out.paths)
		out.elements.append(shape("path", {"class": name, d: d.join("")}));
	picture.replaceChildren(out.elements);
}

let asked = false;
function drawSoon() {
	if (asked)
		return;
	asked = true;
	requestAnimationFrame(() => {
		asked = false;
		draw();
	});
}

// Brings a row into view; a frame's own callers stand below it in a flame, above in an icicle.
function scrollToDepth(d) {
	const y = yOf(d), room = plot.clientHeight;
	plot.scrollTop = icicle ? Math.max(y - room / 4, 0) : y - 3 * room / 4;
}

// ---- what the user does ----

function zoom(i) {
	focus = i;
	resetButton.disabled = i === 0;
	hideTip();
	draw(); // sets the height, which limits scrolling
	scrollToDepth(i === 0 ? 0 : depth[i]);
	draw();
}

function turn() {
	icicle = !icicle;
	turnButton.textContent = icicle ? "Flame" : "Icicle";
	zoom(focus);
}

function swapWidths() {
	if (!about.differential)
		return;
	which = 1 - which;
	widthButton.textContent = which ? "Widths of new" : "Widths of base";
	zoom(focus);
}

// What a term finds: frames whose name holds it; where none does, it is a regular expression.
// Lower-case terms ignore case.
function matcher(text) {
	const fold = text === text.toLowerCase();
	const holds = (name) => (fold ? name.toLowerCase() : name).includes(text);
	if (frames.some((f) => holds(strings[f[1]])))
		return holds;
	try {
		const re = new RegExp(text, fold ? "iu" : "u");
		return (name) => re.test(name);
	} catch (bad) {
		return null;
	}
}

// The weight of all that is at or below a found frame; each counts once.
function weightOfHits(w) {
	let sum = 0;
	for (let i = 1; i < count; i++)
		if (isHit(i)) {
			sum += total[w][i];
			i = end[i] - 1;
		}
	return sum;
}

function search(text) {
	term = text;
	const test = text ? matcher(text) : null;
	input.classList.toggle("bad", text !== "" && test === null);
	hits = test ? Uint8Array.from(frames, (f) => test(strings[f[1]]) ? 1 : 0) : null;
	if (hits) {
		const sum = weightOfHits(0);
		matched.textContent = "Matched " + share(sum, total[0][0]) + " (" + amount(sum) + ")" +
			(about.differential ? ", base " + share(weightOfHits(1), total[1][0]) : "");
	} else {
		matched.textContent = text ? "not a regular expression" : "";
	}
	draw();
}

function tipLines(i) {
	const f = frame[i] < 0 ? [about.other, 0, 0, 0, 0, 0] : frames[frame[i]];
	const lines = [];
	const place = strings[f[2]] ? strings[f[2]] + (f[3] ? ":" + f[3] : "") : "";
	if (i)
		lines.push(["", about.kinds[f[0]][1] + (place ? ", " + place : "")]);
	if (strings[f[4]])
		lines.push(["", strings[f[4]]]);
	lines.push(["value", amount(total[0][i]) + ", " + share(total[0][i], total[0][0]) + " of all" +
		(focus ? ", " + share(total[0][i], total[0][focus]) + " of what is zoomed to" : "")]);
	if (frame[i] >= 0)
		lines.push(["value", "itself " + amount(self[0][i]) + ", " +
			share(self[0][i], total[0][0])]);
	if (about.differential) {
		const change = total[0][i] - total[1][i];
		lines.push(["value", "base " + amount(total[1][i]) + ", " +
			share(total[1][i], total[1][0]) + " of all"]);
		lines.push(["value", "change " + (change > 0 ? "+" : "") + amount(change) +
			(total[1][i] ? ", " + (change > 0 ? "+" : "") + share(change, total[1][i]) : ", new")]);
	}
	return lines;
}

function showTip(i, x, y) {
	const app = plot.parentNode.getBoundingClientRect();
	tip.replaceChildren(element("b", "", nameOf(i)));
	for (const [className, text] of tipLines(i))
		tip.append(element("span", className, text));
	tip.style.display = "block";
	const w = tip.offsetWidth, h = tip.offsetHeight;
	tip.style.left = Math.max(4, Math.min(x + 14, app.width - w - 6)) + "px";
	tip.style.top = (y + 18 + h > app.height ? Math.max(4, y - h - 12) : y + 18) + "px";
}

function hideTip() {
	tip.style.display = "none";
}

function choose(i) {
	const old = picture.querySelector("rect.over");
	if (old)
		old.classList.remove("over");
	chosen = i;
	const now = i < 0 ? null : picture.querySelector('rect[data-i="' + i + '"]');
	if (now)
		now.classList.add("over");
	return now;
}

// The frame that an arrow leads to: towards the root, from it, or beside it.
function neighbour(i, key) {
	const up = icicle ? "ArrowDown" : "ArrowUp", down = icicle ? "ArrowUp" : "ArrowDown";
	if (i < 0)
		return focus;
	if (key === down)
		return parent[i] < 0 ? i : parent[i];
	if (key === up)
		return end[i] > i + 1 ? i + 1 : i;
	const list = levels[depth[i]], at = lowerBound(list, i) + (key === "ArrowRight" ? 1 : -1);
	return at >= 0 && at < list.length ? list[at] : i;
}

function onArrow(event) {
	event.preventDefault();
	const i = neighbour(chosen, event.key), y = yOf(depth[i]);
	if (y < plot.scrollTop || y + ROW > plot.scrollTop + plot.clientHeight) {
		scrollToDepth(depth[i]);
		draw();
	}
	const r = choose(i);
	const box = (r || plot).getBoundingClientRect();
	showTip(i, Math.max(box.left, 0), box.top);
}

function onKey(event) {
	const typing = document.activeElement === input;
	if (event.key === "Escape") {
		input.value = "";
		input.blur();
		search("");
		zoom(0);
	} else if ((event.ctrlKey || event.metaKey) && event.key === "f" && !typing ||
		   event.key === "/" && !typing) {
		event.preventDefault();
		input.focus();
		input.select();
	} else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
		return;
	} else if (event.key === "i") {
		turn();
	} else if (event.key === "b") {
		swapWidths();
	} else if (event.key === "Enter" && chosen >= 0 && document.activeElement === plot) {
		zoom(chosen);
	} else if (event.key.startsWith("Arrow") && document.activeElement === plot) {
		onArrow(event);
	}
}

// The row that is drawn at a place; of narrow ones that share a pixel, one of them.
function rowAtPlace(x, y) {
	const box = picture.getBoundingClientRect(), line = Math.floor((y - box.top) / ROW);
	const d = icicle ? line : deepest[focus] - line, list = levels[d];
	if (d <= depth[focus])
		return ancestor(focus, Math.max(d, 0));
	if (!list)
		return -1;
	const at = start[which][focus] + (x - box.left) / box.width * total[which][focus];
	let from = 0, to = list.length;
	while (from < to) {
		const mid = (from + to) >> 1;
		if (start[which][list[mid]] <= at)
			from = mid + 1;
		else
			to = mid;
	}
	return list[Math.max(from - 1, 0)];
}

function rowAt(event) {
	if (event.target.localName === "path")
		return rowAtPlace(event.clientX, event.clientY);
	const i = event.target.getAttribute("data-i");
	return i === null ? -1 : Number(i);
}

function listen() {
	plot.addEventListener("mousemove", (event) => {
		const i = rowAt(event);
		if (i !== chosen)
			choose(i);
		if (i < 0)
			hideTip();
		else
			showTip(i, event.clientX, event.clientY);
	});
	plot.addEventListener("mouseleave", () => {
		choose(-1);
		hideTip();
	});
	plot.addEventListener("click", (event) => {
		if (rowAt(event) >= 0)
			zoom(rowAt(event));
	});
	plot.addEventListener("scroll", drawSoon);
	input.addEventListener("input", () => search(input.value));
	window.addEventListener("resize", drawSoon);
	window.addEventListener("keydown", onKey);
}

load();
build();
listen();
zoom(0);
})();
