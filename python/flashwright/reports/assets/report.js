"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const modes = ["auto", "light", "dark"];
  let mode = "auto";
  let draw = () => {};

  // Storage is refused for local files by some browsers: the choice then lasts as long as the page.
  const stored = {
    get: () => { try { return localStorage.getItem("flashwright-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("flashwright-theme", value); } catch { /* it lasts as long as the page */ } },
  };

  function setTheme(next) {
    mode = modes.includes(next) ? next : "auto";
    root.dataset.theme = mode === "auto" ? (system.matches ? "dark" : "light") : mode;
    button.textContent = `Theme: ${mode}`;
    draw();
  }

  button.addEventListener("click", () => {
    const next = modes[(modes.indexOf(mode) + 1) % modes.length];
    stored.set(next);
    setTheme(next);
  });
  system.addEventListener("change", () => setTheme(mode));
  setTheme(stored.get());

  const holder = document.getElementById("figures");
  if (!holder) return;
  const figures = JSON.parse(holder.textContent);

  function themed(value, style) {
    if (typeof value === "string") return value.startsWith("@") ? style.getPropertyValue(`--${value.slice(1)}`).trim() : value;
    if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map((item) => themed(item, style));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, style)]));
    return value;
  }

  function axis(own, style, phone) {
    return {
      gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@line", tickcolor: "@line", ticks: "outside", ticklen: 4,
      automargin: true, nticks: phone ? 6 : 10, ...own, title: { standoff: 10, font: { color: "@muted", size: 13 }, ...(own.title || {}) },
    };
  }

  function layoutOf(figure, style, width) {
    const phone = width < 560;
    const own = figure.layout;
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", colorway: ["@c0"],
      font: { family: style.getPropertyValue("--sans").trim(), size: phone ? 12 : 13, color: "@ink" },
      margin: { l: 8, r: phone ? 8 : 16, t: 8, b: 8 }, hovermode: "closest", dragmode: phone ? false : "zoom",
      legend: { font: { size: phone ? 11 : 13 }, itemwidth: 30, ...(phone && figure.data.length > 3 ? { entrywidth: 0.48, entrywidthmode: "fraction" } : {}), orientation: "h", yref: "container", yanchor: "bottom", y: 0, x: 0, xanchor: "left", bgcolor: "rgba(0,0,0,0)", tracegroupgap: 4 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@ink" }, hoverlabel: { bgcolor: "@card", bordercolor: "@line", font: { color: "@ink" }, namelength: -1 },
      ...own, width, height: figure.height + (phone && figure.data.length > 4 ? 24 * Math.ceil(figure.data.length / 2) : 0),
    };
    for (const key of Object.keys(own).filter((name) => /^[xy]axis\d*$/.test(name))) layout[key] = axis(own[key], style, phone);
    if (phone && own.meta && own.meta.phoneRange) layout.xaxis = { ...layout.xaxis, range: own.meta.phoneRange };
    if (!layout.xaxis) layout.xaxis = axis({}, style, phone);
    if (!layout.yaxis) layout.yaxis = axis({}, style, phone);
    return themed(layout, style);
  }

  function drawAll(within = document) {
    const style = getComputedStyle(root);
    return Promise.all(Object.entries(figures).map(([id, figure]) => {
      const place = document.getElementById(id);
      const width = Math.floor(place.clientWidth);
      // What is folded has no width yet: it is drawn when it is opened.
      if (width === 0 || !within.contains(place)) return null;
      const config = { displaylogo: false, displayModeBar: width < 560 ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
      return window.Plotly.react(place, themed(figure.data, style), layoutOf(figure, style, width), config);
    }));
  }

  async function unpackPlotly() {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly-gzip").textContent), (char) => char.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
  }

  unpackPlotly().then(() => drawAll()).then(() => {
    draw = () => drawAll();
    document.addEventListener("toggle", (event) => { if (event.target.open) drawAll(event.target); }, true);
    let width = window.innerWidth;
    let timer = 0;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      clearTimeout(timer);
      timer = setTimeout(draw, 120);
    });
    root.dataset.plots = "drawn";
  }).catch((error) => {
    const failed = document.getElementById("failed");
    failed.hidden = false;
    failed.textContent = `The plots could not be drawn (${error.message}): the browser may be too old. The tables hold the same numbers.`;
    root.dataset.plots = "failed";
  });
})();
