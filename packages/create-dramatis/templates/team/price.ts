import { defineTool } from 'dramatis'
import { z } from 'zod'

const euros = new Map([
  ['cake', 28],
  ['lemonade', 3],
  ['balloons', 5],
])

export const price = defineTool({
  name: 'price',
  description: 'Says what one piece costs, in EUR.',
  input: z.object({ item: z.string() }),
  readOnly: true,
  run: ({ item }) => ({ item, euros: euros.get(item) ?? null }),
})
