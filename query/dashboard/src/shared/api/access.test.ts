// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { can, giveToken, scopesOf } from './access';

const jwt = (claims: object) => `e30.${btoa(JSON.stringify(claims)).replace(/=+$/, '')}.sig`;

describe('the scopes of a token', () => {
  it('come as a text or as a list', () => {
    expect(scopesOf(jwt({ scope: 'read work' }))).toEqual(['read', 'work']);
    expect(scopesOf(jwt({ scopes: ['read'] }))).toEqual(['read']);
    expect(scopesOf('')).toBeNull();
    expect(scopesOf('a.b.c')).toBeNull();
  });

  it('decide what is offered; without a token everything is', () => {
    expect(can('admin')).toBe(true);
    giveToken(jwt({ scope: 'read' }));
    expect([can('read'), can('work'), can('admin')]).toEqual([true, false, false]);
    giveToken(jwt({ scope: 'work' }));
    expect([can('uploads'), can('read')]).toEqual([true, false]);
    giveToken(jwt({ scope: 'uploads' }));
    expect([can('uploads'), can('work')]).toEqual([true, false]);
    giveToken(jwt({ scope: 'admin' }));
    expect([can('read'), can('work'), can('admin')]).toEqual([true, true, true]);
  });
});
