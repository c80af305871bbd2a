import 'rapidoc';
import { watchEffect } from 'vue';
import { token } from '../shared/api/access';
import '../shared/styles/base.css';
import { scheme } from '../shared/ui/theme';
import './docs.css';

/** RapiDoc takes its colors as attributes; these are the ones of tokens.css. */
const colors = {
  light: {
    'bg-color': '#ffffff',
    'text-color': '#10151c',
    'nav-bg-color': '#f6f7f9',
    'nav-text-color': '#566071',
    'primary-color': '#2557d6',
  },
  dark: {
    'bg-color': '#101318',
    'text-color': '#eef1f5',
    'nav-bg-color': '#0a0c10',
    'nav-text-color': '#98a2b3',
    'primary-color': '#7fa8ff',
  },
};

type RapiDoc = HTMLElement & { loadSpec: (document: object) => Promise<void> };
interface Described {
  servers?: { url: string }[];
  paths: Record<string, { servers?: { url: string }[] }>;
}

const reference = document.createElement('rapi-doc') as RapiDoc;
for (const [name, value] of Object.entries({
  'render-style': 'focused',
  'schema-style': 'table',
  'show-header': 'false',
  'allow-spec-url-load': 'false',
  'allow-spec-file-load': 'false',
  'allow-server-selection': 'false',
  'allow-authentication': 'true',
  // Examples are there to read; sent as they are, most are of nothing that this server has.
  'fill-request-fields-with-example': 'false',
  'font-size': 'large',
  'show-method-in-nav-bar': 'as-colored-text',
  'use-path-in-nav-bar': 'true',
  'load-fonts': 'false',
  'regular-font': 'Inter Variable, system-ui, sans-serif',
  'mono-font': 'ui-monospace, Menlo, Consolas, monospace',
  'api-key-name': 'Authorization',
  'api-key-location': 'header',
  'api-key-value': token.value ? `Bearer ${token.value}` : '-',
})) {
  reference.setAttribute(name, value);
}

watchEffect(() => {
  reference.setAttribute('theme', scheme.value);
  for (const [name, value] of Object.entries(colors[scheme.value])) reference.setAttribute(name, value);
});

const back = document.createElement('a');
back.className = 'back';
back.href = './';
back.textContent = '← Millrace';

document.getElementById('docs')?.replaceWith(back, reference);
void describe();

/** RapiDoc puts the origin before relative addresses of servers, which is not where they are. */
async function describe(): Promise<void> {
  const described = (await (await fetch('openapi.json')).json()) as Described;
  const absolute = (servers?: { url: string }[]) => {
    for (const server of servers ?? []) server.url = new URL(server.url, document.baseURI).href.replace(/\/$/, '');
  };
  absolute(described.servers);
  for (const path of Object.values(described.paths)) absolute(path.servers);
  await reference.loadSpec(described);
}
