import vue from 'eslint-plugin-vue';
import ts from 'typescript-eslint';
import parser from 'vue-eslint-parser';

const features = ['articles', 'batches', 'drift', 'events', 'files', 'funnel', 'letters', 'operations', 'queues', 'reference', 'shell', 'sources', 'system', 'uploads'];

export default ts.config(
  { ignores: ['dist/', 'node_modules/', 'src/shared/api/schema.ts'] },
  ...ts.configs.recommended,
  ...vue.configs['flat/recommended'],
  {
    files: ['**/*.vue'],
    languageOptions: { parser, parserOptions: { parser: ts.parser } },
  },
  {
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      // Layout of templates is left to the eye.
      'vue/max-attributes-per-line': 'off',
      'vue/singleline-html-element-content-newline': 'off',
      'vue/html-self-closing': ['error', { html: { void: 'always', normal: 'never', component: 'always' } }],
      'vue/html-indent': 'off',
      'vue/multi-word-component-names': 'off',
      'vue/require-default-prop': 'off',
      'vue/multiline-html-element-content-newline': 'off',
    },
  },
  {
    // What features share knows none of them.
    files: ['src/shared/**'],
    rules: { 'no-restricted-imports': ['error', { patterns: [`../../{${features.join(',')}}/**`, `../{${features.join(',')}}/**`] }] },
  },
  {
    // Features know what they share, and not each other; the shell puts them together.
    files: features.filter((name) => name !== 'shell').map((name) => `src/${name}/**`),
    rules: { 'no-restricted-imports': ['error', { patterns: [`../{${features.join(',')}}/**`] }] },
  },
);
