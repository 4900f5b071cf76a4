// SPDX-License-Identifier: Apache-2.0
// On what, with what and when the rows were measured; one line for each device of each file.
'use strict';
(() => {
  const {el, at} = moesaic;
  const distinct = (rows, path) => [...new Set(
      rows.map((row) => at(row, path)).filter((value) => value !== undefined && value !== null))];
  const span = (values, unit) => {
    const numbers = values.filter((value) => typeof value === 'number');
    if (!numbers.length) return null;
    const low = Math.min(...numbers), high = Math.max(...numbers);
    return (low === high ? `${moesaic.digits(low)}` :
                           `${moesaic.digits(low)} to ${moesaic.digits(high)}`) +
        ' ' + unit;
  };
  moesaic.commitOf = (row) => {
    const git = row.git || {};
    return git.sha ? git.sha + (git.dirty ? ' (modified)' : '') : null;
  };
  const isThrottled = (row) => at(row, 'clocks.throttled') === true;
  const isUnsteady = (row) => at(row, 'timing.unsteady') === true;
  moesaic.isThrottled = isThrottled;
  moesaic.isUnsteady = isUnsteady;

  moesaic.circumstances = function() {
    const head = [
      'file', 'rows', 'device', 'driver', 'power limit', 'SM clock, medians', 'heat', 'toolchain',
      'commit', 'date', 'throttled', 'unsteady', 'no passed check', 'bytes'
    ];
    const rows = [];
    for (const file of moesaic.data.results.files) {
      for (const [device, some] of moesaic.groups(
               file.rows, (row) => at(row, 'device.name') || 'arithmetic')) {
        const dates = distinct(some, 'date').map((date) => String(date).slice(0, 10)).sort();
        const tools = some.map(
            (row) => Object.entries(row.toolchain || {})
                         .filter(([, value]) => value)
                         .map(([key, value]) => `${key} ${value}`)
                         .join(', '));
        rows.push([
          file.name, some.length, device, distinct(some, 'device.driver').join(', ') || null,
          span(distinct(some, 'device.power_limit_w'), 'W'),
          span(distinct(some, 'clocks.sm_mhz.median'), 'MHz'),
          span(distinct(some, 'clocks.temp_c'), '°C'),
          [...new Set(tools)].filter(Boolean).join('; ') || null,
          [...new Set(some.map(moesaic.commitOf).filter(Boolean))].join(', ') || null,
          [...new Set([dates[0], dates[dates.length - 1]])].filter(Boolean).join(' to ') || null,
          some.filter(isThrottled).length, some.filter(isUnsteady).length, file.unchecked,
          file.bytes
        ]);
      }
    }
    const table = {head, rows};
    return el(
        'div', {class: 'card'},
        el('div', {class: 'controls'},
           el('span', {class: 'push'},
              el('button', {
                type: 'button',
                class: 'csv',
                id: 'circumstances-csv',
                onclick: () => moesaic.download(
                    'circumstances.csv', 'text/csv;charset=utf-8', moesaic.csv(table))
              },
                 'CSV'))),
        moesaic.tableOf(table, true),
        moesaic.data.results.files.flatMap((file) => file.warnings)
            .map((warning) => el('p', {class: 'note'}, el('b', {}, 'Warning: '), warning)),
        el('p', {class: 'note'},
           'This page was made by: ', el('code', {}, moesaic.data.meta.command)));
  };
})();
