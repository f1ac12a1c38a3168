/**
 * How much a test plays of what it could play without end: `plain` in `npm test`, `deep` in `npm run test:deep`, a
 * quarter of plain with `npm test -- --brief`, which CI plays on its second Node.
 */
export function howMany(plain: number, deep: number): number {
  const { DRAMATIS_DEEP, DRAMATIS_BRIEF } = process.env
  if (DRAMATIS_DEEP) return deep
  return DRAMATIS_BRIEF ? Math.ceil(plain / 4) : plain
}
