import 'rapidoc';
import '../shared/styles/base.css';
import './docs.css';
import { token } from '../shared/api/access';

const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** RapiDoc takes its colors as attributes; these are the ones of tokens.css. */
const colors = {
  light: { 'bg-color': '#ffffff', 'text-color': '#10151c', 'nav-bg-color': '#f6f7f9', 'nav-text-color': '#566071', 'primary-color': '#2557d6' },
  dark: { 'bg-color': '#101318', 'text-color': '#eef1f5', 'nav-bg-color': '#0a0c10', 'nav-text-color': '#98a2b3', 'primary-color': '#7fa8ff' },
};

const reference = document.createElement('rapi-doc');
for (const [name, value] of Object.entries({
  'spec-url': 'openapi.json',
  'server-url': new URL('.', document.baseURI).href.replace(/\/$/, ''),
  'render-style': 'focused',
  'schema-style': 'table',
  'show-header': 'false',
  'allow-spec-url-load': 'false',
  'allow-spec-file-load': 'false',
  'allow-server-selection': 'false',
  'allow-authentication': 'true',
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

const back = document.createElement('a');
back.slot = 'nav-logo';
back.className = 'back';
back.href = './';
back.textContent = '← Millrace';
reference.append(back);

function paint(): void {
  const theme = dark.matches ? 'dark' : 'light';
  reference.setAttribute('theme', theme);
  for (const [name, value] of Object.entries(colors[theme])) reference.setAttribute(name, value);
}

dark.addEventListener('change', paint);
paint();
document.getElementById('docs')?.replaceWith(reference);
