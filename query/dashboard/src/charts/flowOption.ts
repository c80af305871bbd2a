import type { CustomSeriesRenderItem } from 'echarts/types/dist/shared';
import { formatExact, formatShare } from '../format/number';
import type { Step } from '../funnel/steps';
import type { ChartOption } from './echarts';
import { flowShape } from './flowShape';
import { stageColors } from './palette';
import type { ChartTheme } from './theme';
import { tooltipContent, tooltipStyle } from './tooltip';

export interface Flow {
  steps: readonly Step[];
  theme: ChartTheme;
  animate: boolean;
}

/**
 * The funnel as a stream: the full color is unique articles, the pale rim around it is the events beyond the first
 * of an article. Columns line up with the cards above them.
 */
export function flowOption({ steps, theme, animate }: Flow): ChartOption {
  const colors = stageColors(steps.length, theme.name);
  // Sketched articles may exceed the events by a little; the rim then closes.
  const events = steps.map((step) => Math.max(step.count, step.unique));
  const uniques = steps.map((step) => step.unique);
  const largest = Math.max(0, ...events);
  const fill = {
    type: 'linear' as const,
    x: 0,
    y: 0,
    x2: 1,
    y2: 0,
    colorStops: colors.map((color, i) => ({ offset: (i + 0.25) / colors.length, color })),
  };

  const stream = (values: readonly number[], opacity: number): CustomSeriesRenderItem => {
    return (_, api) => ({
      type: 'polygon',
      shape: { points: flowShape(values, largest, api.getWidth(), api.getHeight()) },
      style: { fill, opacity },
      transition: ['shape'],
      silent: true,
    });
  };

  const column: CustomSeriesRenderItem = (params, api) => {
    const width = api.getWidth() / Math.max(1, steps.length);
    return {
      type: 'rect',
      shape: { x: params.dataIndex * width, y: 0, width, height: api.getHeight() },
      style: { fill: 'transparent' },
      emphasis: { style: { fill: theme.hover } },
    };
  };

  const series = (id: string, renderItem: CustomSeriesRenderItem, data: readonly (readonly number[])[], z: number) => ({
    id,
    type: 'custom' as const,
    coordinateSystem: 'none' as const,
    renderItem,
    data: data as number[][],
    z,
    silent: z > 0,
  });

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
      series('columns', column, steps.map((step) => [step.unique]), 0),
      series('events', stream(events, theme.name === 'dark' ? 0.22 : 0.16), [[largest]], 1),
      series('unique', stream(uniques, 0.92), [[largest]], 2),
    ],
  };
}

function stageTip(step: Step): HTMLElement {
  const rows: [string, string][] = [
    ['Unique articles', formatExact(step.unique)],
    ['Events', formatExact(step.count)],
    ['Repeats', formatExact(step.repeats)],
  ];
  if (step.fromPrevious !== null) rows.push(['From the stage before', formatShare(step.fromPrevious)]);
  if (step.fromFirst !== null) rows.push(['From the first stage', formatShare(step.fromFirst)]);
  return tooltipContent(step.name, rows);
}
