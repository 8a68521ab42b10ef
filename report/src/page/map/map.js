// The map of a run: plays where nodes were, who heard whom, how full they were, and the way of a bundle.
// It reads the data beside it and asks nobody for anything.
"use strict";
for (const root of document.querySelectorAll(".playback")) {
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const NOBODY = 65535, NEVER = 4294967295;
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const wide = (text) => new Uint32Array(bytes(text).buffer);
  const narrow = (text) => new Uint16Array(bytes(text).buffer);
  // Where the part of each of several joined lists begins.
  const starts = (text) => {
    const begins = [0];
    for (const count of wide(text)) begins.push(begins[begins.length - 1] + count);
    return begins;
  };
  const names = data.names, duration = data.duration, tick = data.tick;
  const ways = { at: starts(data.ways.counts), t: wide(data.ways.t), x: narrow(data.ways.x), y: narrow(data.ways.y) };
  const meetings = { start: wide(data.meetings.start), end: wide(data.meetings.end), a: narrow(data.meetings.a), b: narrow(data.meetings.b) };
  const fills = { at: starts(data.fills.counts), t: wide(data.fills.t), v: bytes(data.fills.v) };
  const bundles = { created: wide(data.bundles.created), delivered: wide(data.bundles.delivered), from: narrow(data.bundles.from), to: narrow(data.bundles.to) };
  const steps = { at: starts(data.steps.counts), t: wide(data.steps.t), node: narrow(data.steps.node), from: narrow(data.steps.from), kind: bytes(data.steps.kind) };
  const find = (what) => root.querySelector(what);
  const canvas = find("canvas"), pen = canvas.getContext("2d"), told = find(".told"), play = find(".play");
  const slider = find(".time"), clock = find(".clock"), pace = find(".pace"), chooser = find(".bundle"), named = find(".names"), list = find(".way");
  let now = 0, playing = false, last = 0, chosen = -1, pointed = -1, colours = {}, listed = -1;
  const places = new Float64Array(2 * names.length);

  const seconds = (s) => {
    if (s < 120) return s.toFixed(s < 10 && duration < 60 ? 1 : 0) + " s";
    const two = (n) => String(n).padStart(2, "0"), whole = Math.round(s);
    const days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24;
    const rest = two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60);
    return (days ? days + " d " : "") + (days || hours ? two(hours) + ":" : "") + rest;
  };
  const name = (node) => (node === NOBODY ? "another" : names[node]);
  const bundleName = (b) => b + 1 + ": " + name(bundles.from[b]) + " \u2192 " + name(bundles.to[b]);

  // The last of a sorted part, from begin to end, that is not later than a time; begin - 1: none.
  const upTo = (times, begin, end, time) => {
    let low = begin, high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1; else high = middle;
    }
    return low - 1;
  };
  const place = (node, time) => {
    const begin = ways.at[node], end = ways.at[node + 1];
    if (begin === end) return [NaN, NaN];
    const k = Math.max(upTo(ways.t, begin, end, time), begin), next = Math.min(k + 1, end - 1);
    const span = ways.t[next] - ways.t[k], part = span > 0 ? Math.min(Math.max((time - ways.t[k]) / span, 0), 1) : 0;
    return [ways.x[k] + (ways.x[next] - ways.x[k]) * part, ways.y[k] + (ways.y[next] - ways.y[k]) * part];
  };
  const fill = (node, time) => {
    const k = upTo(fills.t, fills.at[node], fills.at[node + 1], time);
    return k < fills.at[node] ? 0 : fills.v[k] / 255;
  };
  // Who has a copy of the chosen bundle at a time, over which pairs copies went, and whether it is delivered.
  const spread = (time) => {
    const holders = new Set(), edges = [];
    let delivered = false;
    for (let k = steps.at[chosen]; k < steps.at[chosen + 1] && steps.t[k] <= time; k++) {
      if (steps.kind[k] === 0) holders.delete(steps.node[k]);
      else if (steps.kind[k] === 2) delivered = true;
      else {
        holders.add(steps.node[k]);
        if (steps.from[k] !== NOBODY) edges.push([steps.from[k], steps.node[k]]);
      }
    }
    return { holders, edges, delivered };
  };

  const recolour = () => {
    const style = getComputedStyle(document.documentElement);
    for (const key of ["card", "ink", "soft", "rule", "contact", "b", "good", "f0", "f1", "f2", "f3", "f4"]) colours[key] = style.getPropertyValue("--" + key).trim();
  };
  // How places become pixels: as large as fits, the same along and across.
  let scale = 1, left = 0, top_ = 0, deep = 0;
  const [x0, y0, x1, y1] = data.extent, metres = Math.max(x1 - x0, y1 - y0, 1e-9) / 65000;
  const resize = () => {
    const width = root.clientWidth || 300, across = (x1 - x0) / metres || 1;
    deep = (y1 - y0) / metres;
    const margin = 16, height = Math.round(Math.min(Math.max((width * deep) / across, 160), Math.max(width * 0.62, 320), 640));
    const dense = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * dense); canvas.height = Math.round(height * dense);
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    scale = Math.min((width - 2 * margin) / across, (height - 2 * margin) / Math.max(deep, 1));
    left = (width - across * scale) / 2; top_ = (height - deep * scale) / 2;
    draw();
  };
  // North is up.
  const pixel = (x, y) => [left + x * scale, top_ + (deep - y) * scale];
  const line = (a, b) => { pen.moveTo(places[2 * a], places[2 * a + 1]); pen.lineTo(places[2 * b], places[2 * b + 1]); };
  const ring = (node, radius, colour, width) => {
    pen.beginPath(); pen.arc(places[2 * node], places[2 * node + 1], radius, 0, 7);
    pen.strokeStyle = colour; pen.lineWidth = width; pen.stroke();
  };

  const rule = () => {
    const wanted = (canvas.clientWidth / 5 / scale) * metres, power = 10 ** Math.floor(Math.log10(wanted));
    const length = power * (wanted / power >= 5 ? 5 : wanted / power >= 2 ? 2 : 1), y = canvas.clientHeight - 8;
    if (!(length > 1e-6 && length < 1e12)) return;
    pen.strokeStyle = colours.soft; pen.fillStyle = colours.soft; pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(8, y); pen.lineTo(8 + (length / metres) * scale, y); pen.stroke();
    pen.fillText(length >= 1000 ? length / 1000 + " km" : length + " m", 8, y - 5);
  };

  function draw() {
    const time = now / tick, flash = (Number(pace.value) > 0 ? duration / Number(pace.value) : 1) * 0.8 / tick;
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    pen.font = "12px system-ui, sans-serif";
    for (let n = 0; n < names.length; n++) {
      const [x, y] = place(n, time);
      [places[2 * n], places[2 * n + 1]] = pixel(x, y);
    }
    let heard = 0;
    const neighbours = [];
    pen.beginPath();
    for (let m = 0; m < meetings.start.length && meetings.start[m] <= time; m++) {
      if (meetings.end[m] <= time) continue;
      heard++;
      line(meetings.a[m], meetings.b[m]);
      if (meetings.a[m] === pointed) neighbours.push(meetings.b[m]);
      if (meetings.b[m] === pointed) neighbours.push(meetings.a[m]);
    }
    pen.strokeStyle = colours.contact; pen.lineWidth = 1; pen.globalAlpha = 0.6; pen.stroke(); pen.globalAlpha = 1;
    const way = chosen >= 0 ? spread(time) : null;
    if (way) {
      pen.beginPath();
      for (const [a, b] of way.edges) line(a, b);
      pen.strokeStyle = colours.b; pen.lineWidth = 2; pen.setLineDash([5, 4]); pen.stroke(); pen.setLineDash([]);
    }
    const radius = names.length > 500 ? 2.5 : names.length > 120 ? 4 : 6;
    for (let n = 0; n < names.length; n++) {
      const full = fill(n, time), step = full <= 0.02 ? 0 : full < 0.3 ? 1 : full < 0.6 ? 2 : full < 0.9 ? 3 : 4;
      pen.beginPath(); pen.arc(places[2 * n], places[2 * n + 1], radius, 0, 7);
      pen.fillStyle = colours["f" + step]; pen.fill();
      pen.strokeStyle = colours.ink; pen.lineWidth = 1; pen.stroke();
      if (named.checked || n === pointed) { pen.fillStyle = colours.ink; pen.fillText(names[n], places[2 * n] + radius + 3, places[2 * n + 1] + 4); }
    }
    let delivered = 0, created = 0;
    for (let b = 0; b < bundles.created.length; b++) {
      if (bundles.created[b] <= time) created++;
      const at = bundles.delivered[b];
      if (at === NEVER || at > time) continue;
      delivered++;
      const age = (time - at) / flash;
      if (age < 1 && bundles.to[b] !== NOBODY) ring(bundles.to[b], radius + 3 + 9 * age, colours.good, 2.5 * (1 - age) + 0.3);
    }
    if (way) {
      for (const node of way.holders) ring(node, radius + 3, colours.b, 3);
      const [from, to] = [bundles.from[chosen], bundles.to[chosen]];
      pen.fillStyle = colours.ink; pen.font = "bold 12px system-ui, sans-serif";
      for (const [node, text] of [[from, "from"], [to, way.delivered ? "to, delivered" : "to"]]) if (node !== NOBODY) {
        ring(node, radius + 6, colours.ink, 1.5);
        pen.fillText(text, places[2 * node] + radius + 9, places[2 * node + 1] - 6);
      }
    }
    rule();
    clock.textContent = seconds(now) + " of " + seconds(duration);
    const of = data.created > bundles.created.length ? " of the first " + bundles.created.length : "";
    const counted = (n, what) => n + " " + what + (n === 1 ? "" : "s");
    let text = counted(created, "bundle") + " created" + of + ", " + delivered + " delivered, " + counted(heard, "pair") + " in range";
    if (way) text += "; bundle " + bundleName(chosen) + ": " + way.holders.size + " have a copy" + (way.delivered ? ", delivered" : "");
    if (pointed >= 0) text += "; " + names[pointed] + ": " + Math.round(100 * fill(pointed, time)) + " % full, hears " + (neighbours.map(name).slice(0, 8).join(", ") || "nobody") + (neighbours.length > 8 ? " and others" : "");
    told.textContent = text + ".";
    mark(time);
  }
  // The steps of the chosen bundle, those that have been in full ink; each leads to its moment.
  const mark = (time) => {
    if (listed !== chosen) {
      listed = chosen;
      list.replaceChildren();
      const end = chosen < 0 ? 0 : Math.min(steps.at[chosen + 1], steps.at[chosen] + 300);
      for (let k = chosen < 0 ? 0 : steps.at[chosen]; k < end; k++) {
        const row = document.createElement("li"), leap = document.createElement("button"), at = steps.t[k];
        const from = steps.from[k] === NOBODY ? "" : name(steps.from[k]) + " \u2192 ";
        leap.type = "button"; leap.dataset.at = at;
        leap.textContent = seconds(at * tick) + " " + (["gone at ", from ? "" : "made at ", "delivered at "][steps.kind[k]]) + from + name(steps.node[k]);
        leap.addEventListener("click", () => go(at * tick));
        row.append(leap); list.append(row);
      }
    }
    for (const row of list.children) row.classList.toggle("past", Number(row.firstChild.dataset.at) <= time);
  };
  function go(to) {
    now = Math.min(Math.max(to, 0), duration);
    slider.value = String(Math.round((now / duration) * 1000));
    draw();
  }
  const set = (on) => {
    playing = on; play.textContent = on ? "Pause" : "Play";
    if (on && now >= duration) now = 0;
    if (on) { last = performance.now(); requestAnimationFrame(frame); }
  };
  function frame(at) {
    if (!playing) return;
    const passed = Math.min(Math.max(at - last, 0), 250) / 1000;
    last = at;
    go(now + (passed * duration) / Number(pace.value));
    if (now >= duration) set(false); else requestAnimationFrame(frame);
  }
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = 24 * 24;
    for (let n = 0; n < names.length; n++) {
      const far = (places[2 * n] - x) ** 2 + (places[2 * n + 1] - y) ** 2;
      if (far < least) { least = far; best = n; }
    }
    return best;
  };
  const known = (b) => steps.at[b] !== steps.at[b + 1];
  // Bundles from or to the nodes with this name, or with names that begin so; those whose path is known first.
  const ofNode = (text) => {
    const wanted = text.toLowerCase(), lower = names.map((of) => of.toLowerCase());
    const same = (of) => of === wanted, begins = (of) => of.startsWith(wanted);
    const hit = lower.map(lower.some(same) ? same : begins);
    const found = [];
    for (let b = 0; b < bundles.created.length; b++) if (hit[bundles.from[b]] || hit[bundles.to[b]]) found.push(b);
    return found.filter(known).concat(found.filter((b) => !known(b)));
  };
  const matches = find(".matches");
  const choose = () => {
    const text = chooser.value.trim(), numbered = /^\d+(:|$)/.test(text);
    const found = text && !numbered ? ofNode(text) : [];
    const number = numbered ? Number.parseInt(text, 10) - 1 : found.length ? found[0] : -1;
    chosen = number >= 0 && number < bundles.created.length ? number : -1;
    matches.replaceChildren();
    if (text && !numbered) {
      const count = found.length === 1 ? "1 bundle" : found.length + " bundles";
      matches.append((found.length ? count : "no bundle") + " from or to " + text + (found.length > 1 ? ": " : ""));
      if (found.length > 1) for (const b of found.slice(0, 40)) {
        const button = document.createElement("button");
        button.type = "button"; button.textContent = bundleName(b);
        button.addEventListener("click", () => { chooser.value = bundleName(b); choose(); });
        matches.append(button);
      }
      if (found.length > 40) matches.append(" and " + (found.length - 40) + " more");
    }
    if (chosen >= 0 && !known(chosen)) told.textContent = "The path of this bundle is unknown.";
    if (chosen >= 0 && bundles.created[chosen] * tick > now) go(bundles.created[chosen] * tick); else draw();
  };

  play.addEventListener("click", () => set(!playing));
  slider.addEventListener("input", () => { now = (Number(slider.value) / 1000) * duration; draw(); });
  for (const what of [pace, named]) what.addEventListener("change", draw);
  chooser.addEventListener("change", choose);
  chooser.addEventListener("input", choose);
  canvas.addEventListener("pointermove", (event) => { pointed = nearest(event); if (!playing) draw(); });
  canvas.addEventListener("pointerdown", (event) => { pointed = nearest(event); draw(); });
  canvas.addEventListener("pointerleave", () => { pointed = -1; if (!playing) draw(); });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target === chooser || event.target === pace) return;
    const button = event.target.tagName === "BUTTON" || event.target === named;
    const move = { ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1 }[event.key];
    if (event.key === " " && !button) set(!playing);
    else if (move && event.target !== slider) go(now + move * duration);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(duration);
    else if (event.key === "+" || event.key === "-") { pace.selectedIndex = Math.min(Math.max(pace.selectedIndex + (event.key === "+" ? -1 : 1), 0), pace.options.length - 1); draw(); }
    else return;
    event.preventDefault();
  });
  const offered = find("datalist");
  for (let b = 0; b < Math.min(bundles.created.length, 2000); b++) {
    if (!known(b)) continue;
    const option = document.createElement("option");
    option.value = bundleName(b);
    offered.append(option);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { recolour(); draw(); });
  root.hidden = false;
  recolour();
  new ResizeObserver(resize).observe(root);
  resize();
  // A link may lead to a moment and to a bundle: #t=3600&bundle=12.
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("bundle")) { chooser.value = wanted.get("bundle"); choose(); }
  if (wanted.has("t")) go(Number(wanted.get("t")) || 0);
}
