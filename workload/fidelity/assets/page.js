"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const height = 260;
  const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  let charts = [];

  // Times above a second are easier to read in seconds.
  function unitOf(metric) {
    const largest = metric.real.concat(metric.sim).reduce((a, b) => Math.max(a, b), 0);
    return largest >= 2000 ? { name: "s", scale: 1e-3 } : { name: "ms", scale: 1 };
  }
  const scaled = (values, unit) => values.map(v => v * unit.scale);
  const short = v => v == null ? "-" : String(Math.round(v * 100) / 100);

  // Reality is drawn broad, and the simulation thin upon it, so that both show where they agree.
  function series(label, tone, points) {
    const real = tone === "real";
    const line = { label, stroke: color(tone), width: real ? 4 : 1.25, points: { show: false }, spanGaps: true, value: (_, v) => short(v) };
    return points ? { ...line, width: 1, paths: () => null, points: { show: true, size: real ? 8 : 3.5, width: 0, fill: color(tone) } } : line;
  }

  function axis(label) {
    return { label, labelSize: 18, labelGap: 2, labelFont: "12px system-ui, sans-serif", font: "11px system-ui, sans-serif", stroke: color("dim"),
      grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 } };
  }

  // A chart with its heading, at the end of the group of that name.
  function chart(group, title, xLabel, yLabel, columns, lines) {
    const box = document.createElement("div");
    box.className = "chart";
    const heading = document.createElement("h3");
    heading.textContent = title;
    box.append(heading);
    document.getElementById(group).append(box);
    const width = () => Math.max(200, box.clientWidth - 22);
    const plot = new uPlot({
      width: width(), height, scales: { x: { time: false } }, axes: [{ ...axis(xLabel), size: 32 }, { ...axis(yLabel), size: 54 }],
      series: [{ label: xLabel, value: (_, v) => short(v) }, ...lines],
    }, columns, box);
    const observer = new ResizeObserver(() => plot.setSize({ width: width(), height }));
    observer.observe(box);
    charts.push({ box, plot, observer });
  }

  // The share of values at or below each of them, one point for each value that occurs.
  function shares(values) {
    const sorted = [...values].sort((a, b) => a - b), x = [], y = [];
    sorted.forEach((v, i) => {
      if (x[x.length - 1] === v) y[y.length - 1] = 100 * (i + 1) / sorted.length;
      else { x.push(v); y.push(100 * (i + 1) / sorted.length); }
    });
    return [x, y];
  }

  function drawMetric(metric) {
    const unit = unitOf(metric), real = scaled(metric.real, unit), sim = scaled(metric.sim, unit);
    chart("order", metric.name, "request", unit.name, [data.request, real, sim], [series("reality", "real", true), series("simulation", "sim", true)]);
    chart("share", metric.name, unit.name, "%", uPlot.join([shares(real), shares(sim)]), [series("reality", "real"), series("simulation", "sim")]);
    chart("error", metric.name, "request", "%", [data.request, metric.err], [series("simulation against reality", "sim", true)]);
  }

  function drawSeries(name, yLabel, pair) {
    if (!pair.real.some(v => v > 0)) return; // it was not recorded
    chart("series", name, "s", yLabel, [data.series.atS, pair.real, pair.sim], [series("reality", "real"), series("simulation", "sim")]);
  }

  function draw() {
    for (const c of charts) { c.observer.disconnect(); c.plot.destroy(); c.box.remove(); }
    charts = [];
    data.metrics.forEach(drawMetric);
    if (!data.series) return;
    document.getElementById("state").hidden = false;
    drawSeries("Running", "requests", data.series.running);
    drawSeries("Waiting", "requests", data.series.waiting);
    drawSeries("KV in use", "%", data.series.kvPct);
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
