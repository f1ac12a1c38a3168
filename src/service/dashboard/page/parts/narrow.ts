/** Tells whether the page is as narrow as a telephone: then tables and pictures have fewer columns. */
import { signal } from '@preact/signals'

const query = matchMedia('(max-width: 700px)')

export const isNarrow = signal(query.matches)

query.addEventListener('change', ({ matches }) => {
  isNarrow.value = matches
})
