"use strict";
// Devices over time: strips of work, and memory by class.
(() => {
  const { color, el, short, clock } = page;
  const colours = 7, other = -1;
  const classes = [["weights", "weights"], ["kv", "KV"], ["workspace", "workspace"], ["staging", "staging"]];
  const only = new Set(); // tenants singled out, by name

  // A canvas of that many CSS pixels, ready to be drawn on in them.
  function sized(canvas, width, height) {
    const dpr = devicePixelRatio || 1, c = canvas.getContext("2d");
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    canvas.style.height = height + "px";
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    return c;
  }

  // Pairs of tenant and permille of a bin.
  function* lent(list) {
    for (let i = 0; i < list.length; i += 2) yield [list[i], list[i + 1]];
  }
  const seconds = (run, i) => run.atS[i] - (i ? run.atS[i - 1] : 0);

  // Who borrowed most in the runs shown gets a colour: a map from name to style variable, and all borrowers by time.
  function borrowers(runs) {
    const sums = new Map();
    for (const [, run] of runs) for (const d of run.devices || []) d.borrowed.forEach((list, i) => {
      for (const [t, p] of lent(list)) if (t !== other) sums.set(run.tenants[t], (sums.get(run.tenants[t]) || 0) + p * seconds(run, i));
    });
    const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1));
    return new Map(names.map((n, i) => [n, i < colours ? "t" + i : "t-other"]));
  }

  function drawTenants(styles) {
    const box = document.getElementById("tenants"), at = [...box.children].indexOf(document.activeElement);
    const swatch = name => {
      const s = el("span", { className: "swatch" });
      s.style.background = `var(--${name})`;
      return s;
    };
    const parts = [el("span", { className: "chip" }, swatch("own"), "own work"), el("span", { className: "chip" }, swatch("idle"), "idle")];
    for (const [name, v] of styles) {
      if (v === "t-other") continue;
      const b = el("button", { type: "button", "aria-pressed": only.has(name) }, swatch(v), name);
      b.onclick = () => { only.delete(name) || only.add(name); page.redraw(); };
      parts.push(b);
    }
    if ([...styles.values()].includes("t-other")) parts.push(el("span", { className: "chip" }, swatch("t-other"), "other borrowers"));
    box.replaceChildren(...parts);
    if (at >= 0) box.children[at]?.focus();
  }

  // Cards are put up before any is drawn, because a grid's width depends on how many there are. Edges lie on whole pixels, or seams would show.
  const whole = v => Math.round(v * (devicePixelRatio || 1)) / (devicePixelRatio || 1);

  // One run's strips, with a read-out that the pointer and the arrow keys move; returns what draws them.
  function strips(parent, policy, run, styles) {
    const devices = run.devices, row = devices.length <= 10 ? 24 : devices.length <= 20 ? 18 : 13, gap = row > 14 ? 3 : 1, foot = 18;
    const canvas = el("canvas", { className: "strip", tabIndex: 0, role: "img", "aria-label": `Work of ${devices.length} devices under ${policy}; the tables below have its numbers` });
    const read = el("p", { className: "read", "aria-live": "polite" });
    parent.append(el("figure", { className: "card" }, el("figcaption", {}, policy, el("small", { textContent: ` load ${short(run.load)}, seed ${run.seed}${busy(run)}` })), canvas, read));
    return () => drawStrips(canvas, read, run, styles, { row, gap, foot });
  }

  function drawStrips(canvas, read, run, styles, { row, gap, foot }) {
    const devices = run.devices, width = canvas.clientWidth, height = devices.length * row + foot, c = sized(canvas, width, height);
    c.font = `${Math.min(12, row - 1)}px system-ui, sans-serif`;
    const label = Math.min(width * .3, Math.max(...devices.map(d => c.measureText(d.id).width)) + 8), end = run.atS[run.atS.length - 1];
    const x = s => whole(label + (width - label - 1) * s / end);
    const paint = at => {
      c.clearRect(0, 0, width, height);
      devices.forEach((d, k) => drawRow(c, run, d, k * row, row - gap, x, styles));
      c.fillStyle = color("text");
      c.textBaseline = "middle";
      devices.forEach((d, k) => c.fillText(d.id, 0, k * row + (row - gap) / 2, label - 6));
      timeAxis(c, x, end, devices.length * row, width);
      if (!at) return;
      c.strokeStyle = color("text");
      c.lineWidth = 1.5;
      const from = x(at.bin ? run.atS[at.bin - 1] : 0);
      c.strokeRect(from, at.device * row + .5, Math.max(3, x(run.atS[at.bin]) - from), row - gap);
    };
    paint();
    let at = null;
    const go = (device, bin) => {
      at = { device: Math.max(0, Math.min(devices.length - 1, device)), bin: Math.max(0, Math.min(run.atS.length - 1, bin)) };
      paint(at);
      read.textContent = describe(run, at);
    };
    canvas.onpointermove = canvas.onpointerdown = e => {
      const s = (e.offsetX - label) / (width - label - 1) * end;
      if (s >= 0) go(Math.floor(e.offsetY / row), run.atS.findIndex(v => v >= s));
    };
    canvas.onpointerleave = () => { at = null; paint(); read.textContent = ""; };
    canvas.onkeydown = e => {
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
      if (!move) return;
      e.preventDefault();
      at ? go(at.device + move[0], at.bin + move[1]) : go(0, 0);
    };
  }

  // The run's shares of all devices' time.
  function busy(run) {
    let own = 0, borrowed = 0, total = 0;
    for (const d of run.devices) d.own.forEach((p, i) => {
      own += p * seconds(run, i);
      for (const [, q] of lent(d.borrowed[i])) borrowed += q * seconds(run, i);
      total += seconds(run, i);
    });
    return total ? `: busy ${short((own + borrowed) / total / 10)} %, of which borrowed ${short(borrowed / Math.max(1e-9, own + borrowed) * 100)} %` : "";
  }

  function drawRow(c, run, d, top, height, x, styles) {
    c.fillStyle = color("idle");
    c.fillRect(x(0), top, x(run.atS[run.atS.length - 1]) - x(0), height);
    const own = color("own"), fill = new Map();
    const tone = name => fill.get(name) || fill.set(name, color(name)).get(name);
    d.own.forEach((p, i) => {
      const from = x(i ? run.atS[i - 1] : 0), wide = Math.max(1, x(run.atS[i]) - from);
      let base = top + height;
      const put = (permille, style, alpha) => {
        const h = height * permille / 1000;
        c.globalAlpha = alpha;
        c.fillStyle = style;
        c.fillRect(from, base - h, wide, h);
        base -= h;
      };
      for (const [t, q] of lent(d.borrowed[i])) {
        const name = run.tenants[t];
        put(q, tone(t === other ? "t-other" : styles.get(name)), only.size && !only.has(name) ? .18 : 1);
      }
      put(p, own, only.size ? .35 : 1);
      c.globalAlpha = 1;
    });
  }

  function timeAxis(c, x, end, y, width) {
    const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600, 7200, 21600], step = steps.find(s => (x(s) - x(0)) >= 44) || 86400;
    c.fillStyle = color("soft");
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "top";
    for (let s = 0; s <= end; s += step) {
      const text = clock(s), w = c.measureText(text).width, left = Math.min(x(s) - w / 2, width - w);
      c.fillRect(x(s), y, 1, 3);
      c.fillText(text, Math.max(x(0) - w / 2, left), y + 5);
    }
  }

  const gib = mib => short(mib / 1024);
  const span = (run, i) => `${clock(i ? run.atS[i - 1] : 0)} to ${clock(run.atS[i])}`;
  function describe(run, { device, bin }) {
    const d = run.devices[device];
    const who = [...lent(d.borrowed[bin])].map(([t, p]) => `${t === other ? "others" : run.tenants[t]} ${short(p / 10)} %`);
    return `${d.id}, ${span(run, bin)}: own work ${short(d.own[bin] / 10)} %, lent to ${who.join(", ") || "nobody"}; free memory ${gib(free(d, bin))} GiB`;
  }
  const free = (d, i) => d.capacity - classes.reduce((sum, [key]) => sum + d[key][i], 0);

  function memory(parent, policy, run) {
    const minis = el("div", { className: "minis" });
    parent.append(el("figure", { className: "card" }, el("figcaption", {}, policy, el("small", { textContent: ` GiB over ${clock(run.atS[run.atS.length - 1])} minutes; the top is each device's capacity` })), minis));
    const boxes = run.devices.map(d => {
      const least = Math.min(...d.own.map((_, i) => free(d, i)));
      const canvas = el("canvas", { role: "img", "aria-label": `Memory of ${d.id} under ${policy}: of ${gib(d.capacity)} GiB at least ${gib(least)} GiB stay free` });
      minis.append(el("div", { className: "mini" }, el("p", {}, el("b", { textContent: d.id }), el("span", { textContent: `≥ ${(least / 1024).toFixed(1)} of ${gib(d.capacity)} free` })), canvas));
      return [d, canvas];
    });
    return () => drawMemory(run, boxes);
  }

  function drawMemory(run, boxes) {
    const tones = classes.map(([key]) => color("m-" + key)), idle = color("idle"), width = boxes.length ? boxes[0][1].clientWidth : 0, height = 64, end = run.atS[run.atS.length - 1];
    for (const [d, canvas] of boxes) {
      const c = sized(canvas, width, height);
      c.fillStyle = idle;
      c.fillRect(0, 0, width, height);
      d.own.forEach((_, i) => {
        const from = whole(width * (i ? run.atS[i - 1] : 0) / end), wide = Math.max(1, whole(width * run.atS[i] / end) - from);
        let base = height;
        classes.forEach(([key], k) => {
          const h = d.capacity ? height * d[key][i] / d.capacity : 0;
          c.fillStyle = tones[k];
          c.fillRect(from, base - h, wide, h);
          base -= h;
        });
      });
    }
  }

  function drawClasses() {
    document.getElementById("classes").replaceChildren(...[...classes.map(([key, name]) => ["m-" + key, name]), ["idle", "free"]].map(([v, name]) => {
      const s = el("span", { className: "swatch" });
      s.style.background = `var(--${v})`;
      return el("span", { className: "chip" }, s, name);
    }));
  }

  // The numbers behind both charts, made when they are asked for.
  function drawBins(runs) {
    const box = document.getElementById("bins");
    const fill = () => {
      if (!box.open) return;
      box.querySelector("div").replaceChildren(...runs.map(([policy, run]) => page.table(`${policy}: shares of time; memory at its fullest`,
        [["device", false], ["from", true], ["to", true], ["own work %", true], ["borrowed %", true], ["by", false], ...classes.map(([, n]) => [n + " GiB", true]), ["free GiB", true]],
        run.devices.flatMap(d => d.own.map((p, i) => {
          const list = [...lent(d.borrowed[i])];
          return [d.id, clock(i ? run.atS[i - 1] : 0), clock(run.atS[i]), (p / 10).toFixed(1), (list.reduce((sum, [, q]) => sum + q, 0) / 10).toFixed(1),
            list.map(([t, q]) => `${t === other ? "others" : run.tenants[t]} ${(q / 10).toFixed(1)}`).join(", "), ...classes.map(([key]) => (d[key][i] / 1024).toFixed(2)), (free(d, i) / 1024).toFixed(2)];
        })))));
    };
    box.ontoggle = fill;
    fill();
  }

  page.drawers.push(() => {
    const parent = document.getElementById("strips"), runs = page.picked().filter(([, run]) => run.devices?.length && run.atS?.length);
    if (!parent) return;
    const styles = borrowers(runs), mem = document.getElementById("memory");
    for (const name of only) if (!styles.has(name)) only.delete(name);
    parent.replaceChildren();
    mem.replaceChildren();
    drawTenants(styles);
    drawClasses();
    const draws = runs.flatMap(([policy, run]) => [strips(parent, policy, run, styles), memory(mem, policy, run)]);
    draws.forEach(f => f());
    drawBins(runs);
  });
})();
