/** Only what the pictures need: the whole library is three times this size. */
import { CustomChart, LineChart } from 'echarts/charts';
import type { CustomSeriesOption, LineSeriesOption } from 'echarts/charts';
import { GridComponent, TooltipComponent } from 'echarts/components';
import type { GridComponentOption, TooltipComponentOption } from 'echarts/components';
import { init, use } from 'echarts/core';
import type { ComposeOption, ECharts } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';

use([CanvasRenderer, CustomChart, GridComponent, LineChart, TooltipComponent]);

export type ChartOption = ComposeOption<
  CustomSeriesOption | GridComponentOption | LineSeriesOption | TooltipComponentOption
>;

export { init };
export type { CustomSeriesOption, ECharts, LineSeriesOption };
