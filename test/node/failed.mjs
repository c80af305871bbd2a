// A reporter of node:test that names the files with tests that failed, for running these once more.
export default async function* failed(events) {
  const files = new Set();
  for await (const { type, data } of events) if (type === 'test:fail' && data.file) files.add(data.file);
  yield [...files].join(' ');
}
