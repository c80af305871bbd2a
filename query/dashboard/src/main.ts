import { VueQueryPlugin } from '@tanstack/vue-query';
import { createApp } from 'vue';
import { answers, restoreAnswers } from './shared/api/answers';
import { installLive } from './shared/live/useLive';
import './shared/styles/base.css';
import App from './shell/App.vue';
import { keepOffline } from './shell/offline';
import { router } from './shell/router';

await restoreAnswers();
const app = createApp(App);
app.use(VueQueryPlugin, { queryClient: answers });
installLive(app);
app.use(router);
app.mount('#app');
keepOffline();
