import { createApp } from 'vue';
import App from './App.vue';
import { installLive } from './live/useLive';
import { router } from './router';
import './styles/base.css';

const app = createApp(App);
installLive(app);
app.use(router);
app.mount('#app');
