// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { metadataOf } from './sending';

const file = new File(['a'], 'a.csv');

describe('what the server is told of a file', () => {
  it('has what was chosen, and no more', () => {
    expect(metadataOf(file, { processor: 'copy', hold: false, mapping: { title: ' ', sku: '' } })).toEqual({ filename: 'a.csv' });
    expect(metadataOf(file, { processor: 'enrich', hold: true, mapping: { title: ' Name ', sku: '' } })).toEqual({
      filename: 'a.csv', processor: 'enrich', mapping: '{"title":"Name"}', hold: 'true',
    });
  });
});
