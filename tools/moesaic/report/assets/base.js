// SPDX-License-Identifier: Apache-2.0
// The page's one global, its data, and small helpers: elements, numbers for people, CSV, downloads.
'use strict';
const moesaic = {
  data: JSON.parse(document.getElementById('moesaic-data').textContent),
  figures: []
};

/// An element with attributes and children; text is never read as HTML.
moesaic.el = function(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else
      element.setAttribute(key, value === true ? '' : value);
  }
  element.append(
      ...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
};

/// The value at 'timing.mean_s', or undefined.
moesaic.at = function(row, path) {
  return path.split('.').reduce(
      (value, key) => (value === null || value === undefined ? undefined : value[key]), row);
};

moesaic.whole = (value) => Math.round(value).toLocaleString('en-US');
moesaic.percent = (fraction, digits = 1) => {
  const value = 100 * fraction, tiny = value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits;
  return (tiny ? String(Number(value.toPrecision(2))) : value.toFixed(digits)) + ' %';
};
/// The last part of a path; where the file lies is under Circumstances.
moesaic.fileName = (path) => path.split('/').pop();
moesaic.digits = (value, count = 4) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return '-';
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4))
    return value.toExponential(count - 1);
  return String(Number(value.toPrecision(count)));
};
moesaic.seconds = (value) => {
  if (value >= 1) return moesaic.digits(value, 3) + ' s';
  if (value >= 1e-3) return moesaic.digits(value * 1e3, 3) + ' ms';
  return moesaic.digits(value * 1e6, 3) + ' µs';
};
/// 65536 -> '64K', as papers count rows.
moesaic.rows = (value) =>
    (value >= 1024 && value % 1024 === 0 ? value / 1024 + 'K' : moesaic.whole(value));

/// Words of a user inside a figure, where plotly.js would read tags and entities.
moesaic.plain = (text) => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;');

moesaic.mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
moesaic.median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};
/// Items by the key of each, in the order in which keys first appear.
moesaic.groups = function(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
};
moesaic.ascending = (values) => [...new Set(values)].sort((a, b) => a - b);

/// RFC 4180: CRLF, quotes doubled.
moesaic.csv = function(table) {
  const cell = (value) => {
    const text = value === null || value === undefined ? '' : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [table.head, ...table.rows].map((row) => row.map(cell).join(',') + '\r\n').join('');
};
moesaic.download = function(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  const link = moesaic.el('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
};
