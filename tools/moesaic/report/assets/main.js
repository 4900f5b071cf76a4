// SPDX-License-Identifier: Apache-2.0
// Puts the page together.
'use strict';
(() => {
  const {el, data, whole} = moesaic, page = document.getElementById('page');
  const sections = [];
  const section = (id, title, lead, ...content) => {
    sections.push({id, title});
    return el('section', {id}, el('h2', {}, title), el('p', {class: 'lead'}, lead), content);
  };

  const agreement = moesaic.agreement();
  moesaic.agreed = agreement;
  const problem = agreement.differences.length === 0 ?
      null :
      el('p', {class: 'problem', id: 'disagreement'},
         'This page and the planner disagree on ' + agreement.differences.length + ' of ' +
             whole(agreement.compared) +
             ' figures; do not use its numbers. First: ' + agreement.differences[0]);

  const body = [];
  const {figures} = data.results,
        isOf = (kinds) => figures.filter((figure) => kinds.includes(figure.kind));
  const results = (id, title, lead, kinds) => {
    const some = isOf(kinds);
    if (some.length)
      body.push(section(id, title, lead, some.map((figure) => moesaic.resultFigure(figure).card)));
  };
  results(
      'experiments', 'Experiments',
      'Measured claims, each by its own protocol. Full and reduced protocols, short bursts ' +
          'and sustained work are never shown as one.',
      ['fig38', 'fig71', 'table44', 'fig40', 'fig72', 'fig73', 'skew', 'fig2']);
  results(
      'benchmarks', 'Benchmarks',
      'Strategies timed beside one another. Every row passed a check of its results before ' +
          'it was timed.',
      ['bench', 'comparison', 'compare']);
  results(
      'ranks', 'Between ranks',
      'Rows that travel between the ranks of expert parallelism. Every figure has one number of ' +
          'ranks and one transport; every row passed a check of what arrived before it was timed.',
      ['ep', 'ep_blocks', 'ep_arm']);
  results(
      'model', 'Model and measurement', 'The same rows against what arithmetic says.',
      ['roofline', 'predicted']);
  const state = moesaic.routingState();
  if (state.groups.length) {
    const controls = moesaic.routingControls(state), figures = moesaic.routingFigures(state);
    body.push(section(
        'routing', 'Your routing',
        'Histograms of routed rows per expert. Choose a record and a tile height; all ' +
            'figures of this section follow.',
        data.routing.notes.map((note) => el('p', {class: 'note'}, note)),
        data.routing.warnings.map(
            (warning) => el('p', {class: 'note'}, el('b', {}, 'Warning: '), warning)),
        controls, figures.map((figure) => figure.card)));
  }
  body.push(section(
      'explorer', 'Padding explorer',
      'Edit the rows of every expert and see what a padded batch, a loop of the host and a ' +
          'grouped product execute for them.',
      moesaic.explorer(state)));
  if (data.results.files.length) {
    body.push(section(
        'circumstances', 'Circumstances',
        'On what, with what and when the rows were measured. Rows held down by a limit of ' +
            'power or heat are kept and counted as throttled.',
        moesaic.circumstances()));
  }
  const named = Object.entries(data.definitions);
  body.push(section(
      'words', 'What the words mean',
      'Every figure of the planner and of rows between ranks in a sentence, other tools’ names ' +
          'included.',
      el('dl', {class: 'words card'},
         named.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))))));

  const {meta} = data;
  page.append(
      el('header', {class: 'top'},
         el('p', {class: 'kicker'},
            'moesaic ' + meta.version + ' (' + meta.git.sha + (meta.git.dirty ? ', modified' : '') +
                ') · ' + meta.made),
         el('h1', {}, meta.title),
         el('p', {class: 'under'},
            'Works without a network. The page’s own arithmetic agrees with the planner’s on ' +
                whole(agreement.compared - agreement.differences.length) + ' of ' +
                whole(agreement.compared) + ' figures.')));
  const rows = data.results.files.flatMap((file) => file.rows.map((row) => row)),
        devices = [...new Set(rows.map((row) => moesaic.at(row, 'device.name')).filter(Boolean))];
  const tile = (value, words) =>
      el('div', {class: 'tile'}, el('b', {}, value), el('span', {}, words));
  const throttled = rows.filter(moesaic.isThrottled).length,
        unchecked = data.results.files.reduce((sum, file) => sum + file.unchecked, 0);
  const told = [
    [rows.length, 'rows with a passed check'], [unchecked, 'rows without one, left out'],
    [throttled, 'rows throttled by power or heat'], [figures.length, 'figures of results'],
    [data.routing.records.length, 'histograms of routed rows']
  ].filter(([value]) => value > 0);
  page.append(el(
      'div', {class: 'tiles'}, told.map(([value, words]) => tile(whole(value), words)),
      devices.length ? tile(
                           devices.length === 1 ? devices[0] : String(devices.length),
                           devices.length === 1 ? 'the device' : `devices: ${devices.join(', ')}`) :
                                                  null));
  page.append(el('nav', {}, sections.map((one) => el('a', {href: '#' + one.id}, one.title))));
  if (problem) page.append(problem);
  page.append(...body);
  for (const figure of moesaic.figures) figure.draw();
  moesaic.printable();
  moesaic.ready = true;
})();
