/** The same question for a shell: the journey as the API answers it. */
export function asCurl(address: string, secured: boolean): string {
  return `curl ${secured ? `-H "Authorization: Bearer $TOKEN" ` : ''}'${address}'`;
}

/** The same for analysts: the article's events in ClickHouse. */
export function asSQL(hash: string): string {
  return [
    'SELECT seq, stage, occurred_at, received_at, service_name, source_name, metadata',
    'FROM events',
    `WHERE article_hash = unhex('${hash}')`,
    'ORDER BY occurred_at, seq',
  ].join('\n');
}
