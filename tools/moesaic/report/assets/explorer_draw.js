// SPDX-License-Identifier: Apache-2.0
// Drawings of the padding explorer: a padded batch, a loop of the host, one grouped launch. Routed
// rows are filled, rows multiplied for nothing hatched, so that they differ without colour.
'use strict';
(() => {
  const {el, whole} = moesaic;
  const kWidth = 1060, kLeft = 70, kFills = ['#0060a8', '#6fb3e0'], kHatch = 'url(#hatch)',
        kMostBars = 48, kMostNames = 24;
  const svg = (name, attributes, ...children) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children.flat());
    return element;
  };
  const box = (x, y, width, height, extra) => svg('rect', {
    x: x.toFixed(2),
    y: y.toFixed(2),
    width: Math.max(0, width).toFixed(2),
    height: height.toFixed(2),
    ...extra
  });
  const words = (x, y, text, extra) =>
      svg('text', {x: x.toFixed(1), y: y.toFixed(1), ...extra}, text);
  const canvas = (height, label, ...children) => svg(
      'svg', {
        class: 'drawing',
        viewBox: `0 0 ${kWidth} ${Math.ceil(height)}`,
        role: 'img',
        'aria-label': label
      },
      svg('defs', {},
          svg('pattern', {
            id: 'hatch',
            width: 6,
            height: 6,
            patternUnits: 'userSpaceOnUse',
            patternTransform: 'rotate(45)'
          },
              svg('rect', {width: 6, height: 6, fill: '#ffffff'}),
              svg('line', {x1: 0, y1: 0, x2: 0, y2: 6, stroke: '#d55e00', 'stroke-width': 2.2}))),
      ...children);
  const edge = {stroke: '#16202c', 'stroke-width': 0.7};
  const fillOf = (expert) => kFills[expert % 2];
  /// Lines between rows, where there is room for them.
  const grid = (x, y, unit, rows, height) =>
      (unit < 7 ? [] : Array.from({length: Math.max(0, rows - 1)}, (_, i) => svg('line', {
                                                                     x1: x + unit * (i + 1),
                                                                     x2: x + unit * (i + 1),
                                                                     y1: y,
                                                                     y2: y + height,
                                                                     stroke: '#ffffff',
                                                                     'stroke-width': 1
                                                                   })));

  /// Experts that get a bar: all, or the most loaded, in their own order.
  function barsOf(counts) {
    if (counts.length <= kMostBars) return counts.map((count, expert) => ({expert, count}));
    return counts.map((count, expert) => ({expert, count}))
        .sort((a, b) => b.count - a.count)
        .slice(0, kMostBars)
        .sort((a, b) => a.expert - b.expert);
  }

  function padded({counts, rule}) {
    const c = moesaic.capacityRows(rule, counts.reduce((a, b) => a + b, 0), counts.length),
          bars = barsOf(counts);
    const unit = (kWidth - kLeft - 90) / Math.max(c, ...counts, 1),
          height = bars.length > 16 ? 10 : 18, gap = bars.length > 16 ? 3 : 6;
    const parts = [];
    bars.forEach(({expert, count}, i) => {
      const y = 6 + i * (height + gap), fit = Math.min(count, c);
      parts.push(
          words(
              kLeft - 8, y + height - (height > 12 ? 4.5 : 1), `E${expert}`,
              {'text-anchor': 'end'}),
          box(kLeft, y, unit * c, height, {fill: kHatch, ...edge}),
          box(kLeft, y, unit * fit, height, {fill: fillOf(expert), ...edge}),
          ...grid(kLeft, y, unit, fit, height),
          box(kLeft + unit * c, y, unit * (count - fit), height, {
            fill: '#ffffff',
            stroke: fillOf(expert),
            'stroke-width': 1.6,
            'stroke-dasharray': '3 2'
          }),
          words(
              kLeft + unit * Math.max(c, count) + 8, y + height - (height > 12 ? 4.5 : 1),
              whole(count), {class: 'soft'}));
    });
    const bottom = 6 + bars.length * (height + gap);
    parts.push(
        svg('line', {
          x1: kLeft + unit * c,
          x2: kLeft + unit * c,
          y1: 0,
          y2: bottom + 2,
          stroke: '#16202c',
          'stroke-width': 1.4
        }),
        words(kLeft + unit * c, bottom + 15, `C = ${whole(c)}`, {'text-anchor': 'middle'}));
    return canvas(bottom + 20, 'padded batch', parts);
  }

  /// Blocks of one lane of a timeline, one after the other.
  function lane(parts, y, blocks) {
    let x = kLeft;
    for (const block of blocks) {
      if (block.at !== undefined) x = Math.max(x, block.at);
      parts.push(
          box(x, y, block.width, 26,
              {fill: block.fill, ...edge, ...(block.dash ? {'stroke-dasharray': '3 2'} : {})}));
      if (block.text && block.width > 6.6 * block.text.length + 4)
        parts.push(words(
            x + block.width / 2, y + 17, block.text,
            {'text-anchor': 'middle', ...(block.light ? {style: 'fill:#ffffff'} : {})}));
      block.end = x + block.width;
      x = block.end;
    }
    return x;
  }
  function loop({counts}) {
    const active = counts.map((count, expert) => ({expert, count})).filter((one) => one.count > 0);
    const total = active.reduce((sum, one) => sum + one.count, 0) || 1, drawn = active.slice(0, 64);
    const free = kWidth - kLeft - 330, launch = Math.min(16, free / 2 / Math.max(1, drawn.length)),
          parts = [];
    parts.push(
        words(kLeft - 8, 23, 'CPU', {'text-anchor': 'end'}),
        words(kLeft - 8, 63, 'GPU', {'text-anchor': 'end'}));
    const start = [
      {width: 90, fill: '#e4e8ed', text: 'earlier'},
      {width: 80, fill: '#e4e8ed', text: 'count rows'},
      {width: 90, fill: '#c9ced5', text: 'copy counts'}
    ];
    const copied = lane(parts, 46, start);
    const launches = drawn.map((one) => ({width: launch, fill: '#e4e8ed', text: ''}));
    lane(parts, 6, [
      {width: copied - kLeft, fill: '#ffffff', dash: true, text: 'waits for the counts'},
      ...launches
    ]);
    let x = copied;
    drawn.forEach((one, i) => {
      const ready = copied + launch * (i + 1);
      if (ready > x) parts.push(box(x, 46, ready - x, 26, {fill: kHatch, ...edge}));
      const width = Math.max(1.5, (free * 0.62 * one.count) / total);
      lane(parts, 46, [{
             at: Math.max(x, ready),
             width,
             fill: fillOf(one.expert),
             text: `E${one.expert}`,
             light: one.expert % 2 === 0
           }]);
      x = Math.max(x, ready) + width;
    });
    parts.push(words(
        copied + 6, 92,
        whole(active.length) + ' launches, after the counts came to the host' +
            (active.length > 64 ? ' (64 drawn)' : '') + '; hatched: the GPU has nothing to do',
        {class: 'soft'}));
    return canvas(100, 'timeline of a host loop', parts);
  }

  function grouped({counts, tile}) {
    const offsets = moesaic.offsets(counts), rows = offsets[offsets.length - 1] || 0,
          tiles = moesaic.tiles(counts, tile);
    const spare = Math.max(1, Math.round(rows * 0.25)),
          unit = (kWidth - kLeft - 10) / (rows + spare), parts = [];
    parts.push(
        words(kLeft - 8, 23, 'buffer', {'text-anchor': 'end'}),
        box(kLeft + unit * rows, 6, unit * spare, 26,
            {fill: '#eef1f4', ...edge, 'stroke-dasharray': '3 2'}));
    let named = 0;
    counts.forEach((count, expert) => {
      if (count === 0) return;
      const x = kLeft + unit * (offsets[expert] - count), width = unit * count;
      parts.push(
          box(x, 6, width, 26, {fill: fillOf(expert), ...(width > 2 ? edge : {})}),
          ...grid(x, 6, unit, count, 26));
      if (width > 24 && named++ < kMostNames)
        parts.push(
            words(
                x + width / 2, 23, `E${expert}`,
                {'text-anchor': 'middle', style: expert % 2 ? '' : 'fill:#ffffff'}),
            words(x + width, 46, whole(offsets[expert]), {'text-anchor': 'end', class: 'soft'}));
    });
    parts.push(
        words(kLeft + unit * rows + 6, 46, 'not computed', {class: 'soft'}),
        words(kLeft - 8, 76, 'tiles', {'text-anchor': 'end'}));
    const wide = (kWidth - kLeft - 10) / Math.max(1, tiles.padded_rows);
    let x = kLeft;
    counts.forEach((count, expert) => {
      for (let left = count; left > 0 && tiles.row_tiles <= 2000; left -= tile) {
        parts.push(
            box(x, 59, wide * tile, 26, {fill: kHatch, ...(wide * tile > 3 ? edge : {})}),
            box(x, 59, wide * Math.min(left, tile), 26,
                {fill: fillOf(expert), ...(wide * tile > 3 ? edge : {})}));
        x += wide * tile;
      }
    });
    const caption = tiles.row_tiles > 2000 ?
        `${whole(tiles.row_tiles)} tiles of ${tile} rows, too many to draw` :
        whole(tiles.row_tiles) + ' tiles of ' + tile +
            ' rows in one launch; hatched: ' + whole(tiles.padding_rows) + ' rows of tail padding';
    parts.push(words(kLeft, 102, caption, {class: 'soft'}));
    return canvas(110, 'grouped product', parts);
  }

  moesaic.drawings = function(state) {
    const many = state.counts.length > kMostBars ?
        ` The ${kMostBars} most loaded of ${state.counts.length} experts are drawn.` :
        '';
    const panel = (title, text, drawing) => el(
        'section', {class: 'panel'}, el('h3', {}, title), el('p', {class: 'note'}, text), drawing);
    return [
      panel(
          'Padded batch',
          'Every expert is padded to C rows, then one regular batched product runs. Filled: ' +
              'routed rows; hatched: padding, which costs the same work; dashed outline: routed ' +
              'rows beyond C.' + many,
          padded(state)),
      panel(
          'Loop of the host',
          'The host must read the counts before it can launch one product per expert. Lengths ' +
              'are for illustration, not measured.',
          loop(state)),
      panel(
          'Grouped product',
          'Offsets stay on the device; one launch works through the tiles of all experts and ' +
              'leaves the rest of the buffer alone.',
          grouped(state)),
    ];
  };
})();
