/** Answers what it is asked, at once. */
import { defineAgent } from 'dramatis'

export default defineAgent({ receive: ({ content }) => content })
