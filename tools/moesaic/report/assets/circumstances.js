// SPDX-License-Identifier: Apache-2.0
// On what, with what and when the rows were measured; one line for each device and number of
// ranks of each file.
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

  /// One object for each device and number of ranks of each file; what nobody knows is null.
  function found() {
    const list = [];
    for (const file of moesaic.data.results.files) {
      const where = (row) => JSON.stringify([
        at(row, 'device.name') || 'arithmetic', at(row, 'device.ranks'), at(row, 'device.transport')
      ]);
      for (const [key, rows] of moesaic.groups(file.rows, where)) {
        const [device, ranks, transport] = JSON.parse(key);
        const dates = distinct(rows, 'date').map((date) => String(date).slice(0, 10)).sort();
        const tools = rows.map(
            (row) => [...Object.entries(row.toolchain || {})
                          .filter(([, value]) => value)
                          .map(([key, value]) => `${key} ${value}`),
                      at(row, 'device.cuda')]
                         .filter(Boolean)
                         .join(', '));
        const words = (values, between) => [...new Set(values)].filter(Boolean).join(between);
        list.push({
          file: file.name,
          bytes: file.bytes,
          rows: rows.length,
          device,
          ranks,
          transport,
          driver: words(distinct(rows, 'device.driver'), ', ') || null,
          power_limit: span(distinct(rows, 'device.power_limit_w'), 'W'),
          sm_clock: span(distinct(rows, 'clocks.sm_mhz.median'), 'MHz'),
          heat: span(distinct(rows, 'clocks.temp_c'), '°C'),
          toolchain: words(tools, '; ') || null,
          commit: words(rows.map(moesaic.commitOf), ', ') || null,
          date: words([dates[0], dates[dates.length - 1]], ' to ') || null,
          throttled: rows.filter(isThrottled).length,
          unsteady: rows.filter(isUnsteady).length,
          unchecked: file.unchecked
        });
      }
    }
    return list;
  }
  const joined = (...parts) => parts.filter(Boolean).join(', ');
  /// Few columns, so that it fits on paper; the CSV has one for each thing.
  const shownRow = (one) =>
      [one.file,
       joined(
           one.device, moesaic.ranksOf(one), one.driver && `driver ${one.driver}`, one.power_limit),
       joined(one.date, one.commit && `commit ${one.commit}`), one.toolchain,
       joined(one.sm_clock, one.heat) || null,
       joined(
           `${one.rows} rows`, one.throttled && `${one.throttled} throttled`,
           one.unsteady && `${one.unsteady} unsteady`,
           one.unchecked && `${one.unchecked} left out without a passed check`)];

  moesaic.circumstances = function() {
    const list = found();
    const csv = {head: Object.keys(list[0]), rows: list.map((one) => Object.values(one))};
    const head = ['file', 'device', 'measured', 'built by', 'SM clock, heat', 'rows'];
    const keep =
        el('button', {
          type: 'button',
          class: 'csv',
          id: 'circumstances-csv',
          onclick: () =>
              moesaic.download('circumstances.csv', 'text/csv;charset=utf-8', moesaic.csv(csv))
        },
           'CSV');
    return el(
        'div', {class: 'card'}, el('div', {class: 'controls'}, el('span', {class: 'push'}, keep)),
        moesaic.tableOf({head, rows: list.map(shownRow)}, true),
        moesaic.data.results.files.flatMap((file) => file.warnings)
            .map((warning) => el('p', {class: 'note'}, el('b', {}, 'Warning: '), warning)),
        el('p', {class: 'note'},
           'This page was made by: ', el('code', {}, moesaic.data.meta.command)));
  };
})();
