/** A step that does nothing: what it gets it passes on. */
import { defineAgent } from 'dramatis'

export default defineAgent({ receive: ({ content }) => content })
