/** How much a test plays of what it could play without end: `plain` in `npm test`, `deep` in `npm run test:deep`. */
export function howMany(plain: number, deep: number): number {
  return process.env.DRAMATIS_DEEP ? deep : plain
}

/** Options of a test that `npm run test:deep` alone plays. */
export const onlyDeep = { skip: !process.env.DRAMATIS_DEEP && 'npm run test:deep plays it' }
