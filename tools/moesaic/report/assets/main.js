// SPDX-License-Identifier: Apache-2.0
// Puts the page together.
'use strict';
(() => {
  const { el, data, whole } = moesaic, page = document.getElementById('page');
  const sections = [];
  const section = (id, title, lead, ...content) => {
    sections.push({ id, title });
    return el('section', { id }, el('h2', {}, title), el('p', { class: 'lead' }, lead), content);
  };

  const agreement = moesaic.agreement();
  moesaic.agreed = agreement;
  const problem = agreement.differences.length === 0 ? null
    : el('p', { class: 'problem', id: 'disagreement' }, `This page and the planner disagree on ${agreement.differences.length} of ${whole(agreement.compared)} figures; do not use its numbers. First: ${agreement.differences[0]}`);

  const body = [];
  const state = moesaic.routingState();
  if (state.groups.length) {
    const controls = moesaic.routingControls(state), figures = moesaic.routingFigures(state);
    body.push(section('routing', 'Your routing', 'Histograms of routed rows per expert. Choose a record and a tile height; all figures of this section follow.',
      data.routing.notes.map((note) => el('p', { class: 'note' }, note)), data.routing.warnings.map((warning) => el('p', { class: 'note' }, el('b', {}, 'Warning: '), warning)),
      controls, figures.map((figure) => figure.card)));
  }
  body.push(section('explorer', 'Padding explorer', 'Edit the rows of every expert and see what a padded batch, a loop of the host and a grouped product execute for them.', moesaic.explorer(state)));
  if (data.results.files.length) {
    body.push(section('circumstances', 'Circumstances', 'On what, with what and when the rows were measured. Rows held down by a limit of power or heat are kept and counted as throttled.', moesaic.circumstances()));
  }
  const named = Object.entries(data.definitions);
  body.push(section('words', 'What the words mean', 'Every figure of the planner in a sentence, other tools’ names included.',
    el('dl', { class: 'words card' }, named.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))))));

  const { meta } = data;
  page.append(el('header', { class: 'top' }, el('p', { class: 'kicker' }, `moesaic ${meta.version} (${meta.git.sha}${meta.git.dirty ? ', modified' : ''}) · ${meta.made}`),
    el('h1', {}, meta.title),
    el('p', { class: 'under' }, `Works without a network. The page’s own arithmetic agrees with the planner’s on ${whole(agreement.compared - agreement.differences.length)} of ${whole(agreement.compared)} figures.`)));
  page.append(el('nav', {}, sections.map((one) => el('a', { href: '#' + one.id }, one.title))));
  if (problem) page.append(problem);
  page.append(...body);
  for (const figure of moesaic.figures) figure.draw();
  moesaic.printable();
  moesaic.ready = true;
})();
