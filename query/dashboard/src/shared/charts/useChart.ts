import { onBeforeUnmount, onMounted, watch } from 'vue';
import type { Ref } from 'vue';
import { init } from './echarts';
import type { ChartOption, ECharts } from './echarts';

/** Draws an option into an element, again whenever the option or the size of the element changes. */
export function useChart(element: Ref<HTMLElement | null>, option: () => ChartOption): void {
  let chart: ECharts | undefined;
  let resizes: ResizeObserver | undefined;

  onMounted(() => {
    if (!element.value) return;
    chart = init(element.value);
    chart.setOption(option());
    resizes = new ResizeObserver(() => {
      chart?.resize();
      // Shapes are computed from the size, so they are made anew.
      chart?.setOption(option());
    });
    resizes.observe(element.value);
  });

  watch(option, (changed) => chart?.setOption(changed));

  onBeforeUnmount(() => {
    resizes?.disconnect();
    chart?.dispose();
  });
}
