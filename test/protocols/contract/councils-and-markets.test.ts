/** Strategies in which agents seek one answer together, or find their work themselves. */
import { holdsFor } from './holds.ts'

// The strategies in which agents seek one answer together.

holdsFor('consensus', 'debate')

// The strategies in which agents find their work themselves.

holdsFor('blackboard', 'auction')
