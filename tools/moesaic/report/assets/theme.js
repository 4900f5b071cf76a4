// SPDX-License-Identifier: Apache-2.0
// How figures look. Each arm has a colour (safe for the colour-blind, apart in grey), a dash and a
// marker; a second file has hollow markers and thinner lines.
'use strict';
moesaic.arms = {
  grouped: {label: 'grouped', colour: '#0060a8', dash: 'solid', symbol: 'circle', hatch: ''},
  padded_bmm:
      {label: 'padded_bmm', colour: '#d55e00', dash: '10px,4px', symbol: 'square', hatch: '/'},
  host_loop:
      {label: 'host_loop', colour: '#4fb3e8', dash: '2px,3px', symbol: 'diamond', hatch: '.'},
  dense: {
    label: 'dense',
    colour: '#111111',
    dash: '10px,3px,2px,3px',
    symbol: 'triangle-up',
    hatch: 'x'
  },
  torch: {label: 'torch', colour: '#c77ba8', dash: '5px,3px', symbol: 'star', hatch: '\\'},
};
moesaic.spareArms = [
  {colour: '#00856a', dash: '14px,3px', symbol: 'hexagon', hatch: '|'},
  {colour: '#7a4fb5', dash: '4px,2px,1px,2px', symbol: 'triangle-down', hatch: '-'},
  {colour: '#b38600', dash: '1px,2px', symbol: 'cross', hatch: '+'},
  {colour: '#6b7480', dash: '7px,7px', symbol: 'pentagon', hatch: '/'},
  {colour: '#0060a8', dash: 'solid', symbol: 'x', hatch: 'x'},
  {colour: '#d55e00', dash: '10px,4px', symbol: 'hourglass', hatch: '.'},
  {colour: '#111111', dash: '2px,3px', symbol: 'star-triangle-down', hatch: '\\'},
  {colour: '#4fb3e8', dash: '5px,2px', symbol: 'diamond-tall', hatch: '|'},
];
/// The style of an arm; names that are not the project's get the next spare one.
moesaic.arm = function(name) {
  if (!moesaic.arms[name] && moesaic.arms[name.replace(/_packed$/, '')]) {
    const base = moesaic.arms[name.replace(/_packed$/, '')];
    moesaic.arms[name] = {...base, label: name, dash: '1px,3px', symbol: base.symbol + '-dot'};
  }
  if (!moesaic.arms[name]) {
    const used = Object.keys(moesaic.arms).length;
    moesaic.arms[name] = {label: name, ...moesaic.spareArms[used % moesaic.spareArms.length]};
  }
  return moesaic.arms[name];
};
/// Line and marker of an arm in set 0 (A) or 1 (B).
moesaic.trace = function(name, place, extra) {
  const arm = moesaic.arm(name), second = place > 0;
  return {
    type: 'scatter',
    mode: 'lines+markers',
    name: arm.label + (moesaic.comparing ? (second ? ' · B' : ' · A') : ''),
    line: {color: arm.colour, dash: arm.dash, width: second ? 1.3 : 2.4},
    marker: {
      color: arm.colour,
      symbol: second ?
          arm.symbol.replace(/-dot$/, '') + '-open' + (/-dot$/.test(arm.symbol) ? '-dot' : '') :
          arm.symbol,
      size: second ? 9 : 7.5,
      line: {width: second ? 1.6 : 0.5, color: arm.colour}
    },
    opacity: second ? 0.85 : 1,
    ...extra,
  };
};
/// Light to dark in even steps of luminance, so that it reads in grey.
moesaic.scale = [
  [0, '#f7f5ee'], [0.2, '#d3dfc9'], [0.4, '#94c2b4'], [0.6, '#4d96a4'], [0.8, '#255b85'],
  [1, '#0c1f4a']
];
moesaic.ink = '#16202c';

moesaic.axis = (title, extra) => ({
  title: {text: title, standoff: 8},
  gridcolor: '#e4e8ed',
  zeroline: false,
  linecolor: '#8592a0',
  ticks: 'outside',
  tickcolor: '#8592a0',
  ticklen: 4,
  automargin: true,
  ...extra,
});
/// Ticks of logarithmic axes by what lies on them: every decade, 1 2 5, or as plotly.js likes.
moesaic.logTicks = function(traces, layout) {
  for (const [key, axis] of Object.entries(layout)) {
    if (!/^[xy]axis/.test(key) || axis.type !== 'log' || axis.tickvals || axis.dtick) continue;
    const letter = key[0], name = key.replace('axis', '');
    const values = traces.filter((trace) => (trace[letter + 'axis'] || letter) === name)
                       .flatMap((trace) => trace[letter] || [])
                       .filter((value) => value > 0);
    if (!values.length) continue;
    const decades = Math.log10(
        values.reduce((a, b) => Math.max(a, b)) / values.reduce((a, b) => Math.min(a, b)));
    if (decades > 1.3) axis.dtick = decades > 4.5 ? 1 : 'D2';
  }
};
/// An axis over numbers of rows: powers of two are the ticks.
moesaic.rowsAxis = function(title, values, type, extra) {
  const ticks = moesaic.ascending(values);
  const shown = ticks.filter(
      (value, i) => i === 0 || i === ticks.length - 1 || ticks.length <= 12 || i % 2 === 0);
  return moesaic.axis(title, {
    type,
    tickvals: type === 'log' ? shown : undefined,
    ticktext: type === 'log' ? shown.map(moesaic.rows) : undefined,
    rangemode: type === 'log' ? 'normal' : 'tozero',
    ...extra
  });
};
moesaic.layout = function(extra) {
  return {
    font: {
      family: 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif',
      size: 12.5,
      color: moesaic.ink
    },
    paper_bgcolor: '#ffffff',
    plot_bgcolor: '#ffffff',
    height: 430,
    hovermode: 'closest',
    margin: {l: 64, r: 20, t: 34, b: 56},
    hoverlabel: {
      bgcolor: '#ffffff',
      bordercolor: '#55616f',
      font: {color: moesaic.ink, size: 12.5},
      align: 'left'
    },
    legend:
        {orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', xanchor: 'left', font: {size: 12.5}},
    ...extra,
  };
};
/// A band of the horizontal axis with a word in it.
moesaic.band = (x0, x1, axis, words) => ({
  type: 'rect',
  xref: axis,
  yref: 'paper',
  x0,
  x1,
  y0: 0,
  y1: 1,
  line: {width: 0},
  fillcolor: '#3f7d3f',
  opacity: 0.1,
  layer: 'below',
  label: {text: words, textposition: 'bottom center', font: {size: 11, color: '#2d5a2d'}},
});
