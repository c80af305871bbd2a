/** A web component; its package has no types. */
declare module 'rapidoc';
