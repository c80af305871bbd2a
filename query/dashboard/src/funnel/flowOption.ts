import type { CustomSeriesRenderItem, CustomSeriesRenderItemReturn } from 'echarts/types/dist/shared';
import { formatExact, formatShare } from '../shared/format/number';
import type { Step } from './steps';
import type { ChartOption } from '../shared/charts/echarts';
import { flowShape, streamline } from './flowShape';
import { stageColors } from '../shared/charts/palette';
import type { ChartTheme } from '../shared/charts/theme';
import { tooltipContent, tooltipStyle } from '../shared/charts/tooltip';

export interface Flow {
  steps: readonly Step[];
  theme: ChartTheme;
  animate: boolean;
}

/** Where the fine lines in the water run, from the middle (0) to the banks (±1). */
const streamlines = [-0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75];

/** Left above and below the widest stage. */
const bank = 22;

/**
 * The funnel as a stream: the full color is unique articles, the pale rim around it is the events beyond the first
 * of an article. Columns line up with the cards above them.
 */
export function flowOption({ steps, theme, animate }: Flow): ChartOption {
  const columns = Math.max(1, steps.length);
  const uniques = steps.map((step) => step.unique);
  // Sketched articles may exceed the events by a little; the rim then closes.
  const events = steps.map((step) => Math.max(step.count, step.unique));
  const largest = Math.max(0, ...events);
  const fill = gradient(stageColors(steps.length, theme.name));

  const rim: CustomSeriesRenderItem = (_, api) => ({
    type: 'polygon',
    y: bank,
    shape: { points: flowShape(events, largest, api.getWidth(), api.getHeight() - 2 * bank) },
    style: { fill, opacity: theme.name === 'dark' ? 0.24 : 0.17 },
    transition: ['shape'],
  });

  const water: CustomSeriesRenderItem = (params, api) => {
    const points = flowShape(uniques, largest, api.getWidth(), api.getHeight() - 2 * bank);
    const shape: CustomSeriesRenderItemReturn = {
      type: 'polygon',
      y: bank,
      shape: { points },
      style: { fill, opacity: 0.94 },
      transition: ['shape'],
    };
    const line = streamlines[params.dataIndex - 1];
    if (line === undefined) return shape;
    return {
      type: 'polyline',
      y: bank,
      shape: { points: streamline(points, line) },
      style: { fill: 'none', stroke: '#fff', lineWidth: 1, opacity: 0.16 },
      transition: ['shape'],
    };
  };

  const column: CustomSeriesRenderItem = (params, api) => {
    const width = api.getWidth() / columns;
    const x = params.dataIndex * width;
    const area = { type: 'rect' as const, shape: { x, y: 0, width, height: api.getHeight() } };
    const edge = { type: 'rect' as const, shape: { x, y: 0, width: x > 0 ? 1 : 0, height: api.getHeight() } };
    return {
      type: 'group',
      children: [
        { ...area, style: { fill: 'transparent' }, emphasis: { style: { fill: theme.hover } } },
        { ...edge, style: { fill: theme.line }, silent: true },
      ],
    };
  };

  return {
    animation: animate,
    animationDuration: 700,
    animationDurationUpdate: 400,
    animationEasingUpdate: 'cubicOut',
    tooltip: {
      ...tooltipStyle(theme),
      trigger: 'item',
      formatter: (params) => {
        const step = steps[Array.isArray(params) ? -1 : params.dataIndex];
        return step ? stageTip(step) : '';
      },
    },
    series: [
      layer('columns', column, columns, 0),
      layer('events', rim, 1, 1),
      layer('unique', water, 1 + streamlines.length, 2),
    ],
  };
}

/** A series that draws itself; only the lowest layer, the columns, answers the mouse. */
function layer(id: string, renderItem: CustomSeriesRenderItem, items: number, z: number) {
  const data = Array.from({ length: items }, (_, i) => [i]);
  return { id, type: 'custom' as const, coordinateSystem: 'none' as const, renderItem, data, z, silent: z > 0 };
}

function gradient(colors: readonly string[]) {
  const colorStops = colors.map((color, i) => ({ offset: (i + 0.25) / colors.length, color }));
  return { type: 'linear' as const, x: 0, y: 0, x2: 1, y2: 0, colorStops };
}

function stageTip(step: Step): HTMLElement {
  const rows: [string, string][] = [
    ['Unique articles', formatExact(step.unique)],
    ['Events', formatExact(step.count)],
    ['Repeats', formatExact(step.repeats)],
  ];
  if (step.fromPrevious !== null) rows.push(['Of the previous stage', formatShare(step.fromPrevious)]);
  if (step.fromFirst !== null) rows.push(['Of the first stage', formatShare(step.fromFirst)]);
  return tooltipContent(step.name, rows);
}
