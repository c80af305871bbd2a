import { formatRate } from '../shared/format/number';
import { formatClock } from '../shared/format/time';
import { kept } from '../shared/live/pace';
import type { Point } from '../shared/live/pace';
import type { ChartOption, LineSeriesOption } from '../shared/charts/echarts';
import { stageColors } from '../shared/charts/palette';
import type { ChartTheme } from '../shared/charts/theme';
import { tooltipContent, tooltipStyle } from '../shared/charts/tooltip';

export interface StagePace {
  name: string;
  points: readonly Point[];
}

/** A page just opened shows this much, and more as it fills. */
const shortest = 60_000;

/** Events per second over the last minutes, a line per stage. */
export function paceOption(stages: readonly StagePace[], now: number, theme: ChartTheme): ChartOption {
  const colors = stageColors(stages.length, theme.name);
  const oldest = stages[0]?.points[0]?.at ?? now;
  const start = Math.max(now - kept, Math.min(oldest, now - shortest));
  const axis = {
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: theme.muted, fontFamily: theme.font, fontSize: 11.5 },
  };
  return {
    animation: false,
    grid: { left: 4, right: 26, top: 12, bottom: 4, outerBoundsMode: 'same' },
    tooltip: {
      ...tooltipStyle(theme),
      trigger: 'axis',
      axisPointer: { lineStyle: { color: theme.muted, type: 'dashed' } },
      formatter: (params) => paceTip(Array.isArray(params) ? params : [params], stages, colors),
    },
    xAxis: {
      type: 'time',
      min: start,
      max: now,
      ...axis,
      axisLabel: { ...axis.axisLabel, formatter: (at: number) => formatClock(at), hideOverlap: true },
      splitLine: { show: false },
      splitNumber: 4,
    },
    yAxis: {
      type: 'value',
      min: 0,
      minInterval: 0.1,
      splitNumber: 3,
      ...axis,
      axisLabel: { ...axis.axisLabel, formatter: (rate: number) => formatRate(rate) },
      splitLine: { lineStyle: { color: theme.line } },
    },
    series: stages.map(
      (stage, i): LineSeriesOption => ({
        id: stage.name,
        name: stage.name,
        type: 'line',
        showSymbol: false,
        lineStyle: { width: 2, color: colors[i] },
        itemStyle: { color: colors[i] },
        data: stage.points.map((point) => [point.at, point.rate]),
        emphasis: { disabled: true },
      }),
    ),
  };
}

interface TipParams {
  seriesIndex?: number;
  value?: unknown;
}

function paceTip(params: readonly TipParams[], stages: readonly StagePace[], colors: readonly string[]): HTMLElement {
  const rows: [string, string, string][] = [];
  let title = '';
  for (const { seriesIndex = 0, value } of params) {
    const [at, rate] = value as [number, number | null];
    title = formatClock(at);
    rows.push([stages[seriesIndex]?.name ?? '', formatRate(rate), colors[seriesIndex] ?? '']);
  }
  return tooltipContent(title, rows);
}
