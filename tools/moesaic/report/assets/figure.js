// SPDX-License-Identifier: Apache-2.0
// A figure of the page: a card with a title, a sentence, switches, the plot, its numbers as a
// table, and what of it can be kept (PNG, CSV).
'use strict';
moesaic.switchOf = function(label, choices, value, change) {
  const {el} = moesaic;
  const buttons = choices.map(
      (choice) =>
          el('button', {
            type: 'button',
            'data-value': choice.value,
            'aria-pressed': String(choice.value === value)
          },
             choice.label));
  for (const button of buttons) {
    button.addEventListener('click', () => {
      for (const other of buttons) other.setAttribute('aria-pressed', String(other === button));
      change(button.dataset.value);
    });
  }
  return el(
      'label', {}, label,
      el('span', {class: 'switch', role: 'group', 'aria-label': label}, buttons));
};
moesaic.selectOf = function(label, choices, value, change, id) {
  const {el} = moesaic;
  const select =
      el('select', {id, onchange: (event) => change(event.target.value)},
         choices.map(
             (choice) => el(
                 'option', {value: choice.value, selected: String(choice.value) === String(value)},
                 choice.label)));
  return el('label', {}, label, select);
};

const kShownRows = 400, kCornerLine = 13;
moesaic.tableOf = function(table, wrap) {
  const {el} = moesaic;
  const isText = (column) => table.rows.some((row) => typeof row[column] === 'string');
  const kind = table.head.map((_, column) => (isText(column) ? 'text' : null));
  const shown = (value) =>
      (typeof value === 'number'                 ? moesaic.digits(value, 6) :
           value === null || value === undefined ? '-' :
                                                   String(value));
  const rest = table.rows.length - kShownRows;
  return el(
      'div', {class: 'scroll'},
      el('table', {class: wrap ? 'wrap' : null},
         el('thead', {},
            el('tr', {}, table.head.map((name, i) => el('th', {class: kind[i]}, name)))),
         el('tbody', {},
            table.rows.slice(0, kShownRows)
                .map(
                    (row) =>
                        el('tr', {},
                           row.map((value, i) => el('td', {class: kind[i]}, shown(value))))))),
      rest > 0 ? el('p', {class: 'note'}, `${moesaic.whole(rest)} more rows are in the CSV.`) :
                 null);
};

/// Adds a figure. spec: {id, title, lead, tags, controls: [{key, label, choices, value, when}],
/// corner(view), draw(view) -> {traces, layout, notes}, table(view) -> {head, rows}, extra}. `view`
/// holds what the controls say.
moesaic.figure = function(spec) {
  const {el} = moesaic;
  const view = {}, plot = el('div', {class: 'plot', id: spec.id + '-plot'});
  const notes = el('div', {class: 'note'}), tableBox = el('div');
  for (const control of spec.controls || []) view[control.key] = control.value;
  const own =
      (spec.controls || []).filter((control) => control.choices.length > 1).map((control) => {
        const make =
            control.choices.length > 3 || control.long ? moesaic.selectOf : moesaic.switchOf;
        return make(control.label, control.choices, control.value, (value) => {
          view[control.key] = value;
          figure.draw();
        }, `${spec.id}-${control.key}`);
      });
  const details =
      el('details', {ontoggle: () => figure.fillTable()}, el('summary', {}, 'Table'), tableBox);
  const keep =
      el('span', {class: 'push'},
         el('button', {type: 'button', class: 'png', onclick: () => figure.png()}, 'PNG'),
         el('button', {type: 'button', class: 'csv', onclick: () => figure.csv()}, 'CSV'));
  const card = el(
      'section', {class: 'card figure', id: spec.id},
      el('div', {class: 'tags'},
         (spec.tags ||
          []).map((tag) => el('span', {class: 'tag' + (tag.strong ? ' strong' : '')}, tag.text))),
      el('h3', {}, spec.title), el('p', {class: 'lead'}, spec.lead), spec.before || null,
      el('div', {class: 'controls'}, own, keep), plot, notes, spec.extra || null, details);
  const figure = {
    id: spec.id,
    card,
    plot,
    view,
    draw() {
      const drawn = spec.draw(view);
      const layout = moesaic.layout(drawn.layout);
      moesaic.logTicks(drawn.traces, layout);
      const lines = spec.corner ? spec.corner(view) : [];
      layout.margin = {...layout.margin, b: layout.margin.b + 8 + kCornerLine * lines.length};
      layout.annotations =
          [...(layout.annotations || []), ...moesaic.corner(lines, layout.margin.b)];
      const config = {
        displaylogo: false,
        responsive: true,
        modeBarButtonsToRemove: ['toImage', 'lasso2d', 'select2d', 'autoScale2d']
      };
      Plotly.react(plot, drawn.traces, layout, config);
      notes.replaceChildren(...[...new Set(drawn.notes || [])].map((text) => el('p', {}, text)));
      if (details.open) figure.fillTable();
      if (spec.drawn) spec.drawn(figure);
    },
    fillTable() {
      if (details.open) tableBox.replaceChildren(moesaic.tableOf(spec.table(view)));
    },
    csv() {
      moesaic.download(spec.id + '.csv', 'text/csv;charset=utf-8', moesaic.csv(spec.table(view)));
    },
    png() {
      Plotly.downloadImage(
          plot,
          {format: 'png', scale: 3, width: 1000, height: plot.offsetHeight, filename: spec.id});
    },
    openTable(open) {
      details.open = open;
      figure.fillTable();
    },
  };
  moesaic.figures.push(figure);
  return figure;
};

/// Device and commit in the corner of the picture itself, so that a picture that travels keeps
/// them.
moesaic.corner = function(lines, bottom) {
  return lines.map((text, i) => ({
                     text: moesaic.plain(text),
                     xref: 'paper',
                     yref: 'paper',
                     x: 1,
                     y: 0,
                     xanchor: 'right',
                     yanchor: 'top',
                     showarrow: false,
                     yshift: -bottom + kCornerLine * (lines.length - i) + 3,
                     font: {size: 10, color: '#55616f'},
                   }));
};

/// Paper is narrower than the window, and two figures should fit on a page: they are drawn for it
/// and back again.
moesaic.printable = function() {
  const kWidth = 690, kShare = 0.66, kTall = 500;
  const before = new Map();
  const plots = () => document.querySelectorAll('.js-plotly-plot');
  window.addEventListener('beforeprint', () => {
    for (const plot of plots()) {
      const height = plot.layout.height;
      before.set(plot, height);
      const paper = {
        width: kWidth,
        height: height > kTall ? height : Math.round(height * kShare),
        autosize: false
      };
      Plotly.relayout(plot, paper);
      Plotly.relayout(plot, paper);  // a legend that wraps anew gets its room at the next one
    }
  });
  window.addEventListener('afterprint', () => {
    for (const plot of plots()) {
      Plotly.relayout(plot, {width: null, height: before.get(plot), autosize: true});
    }
  });
};
