import { createApp } from 'vue';
import App from './shell/App.vue';
import { installLive } from './shared/live/useLive';
import { router } from './shell/router';
import './shared/styles/base.css';

const app = createApp(App);
installLive(app);
app.use(router);
app.mount('#app');
