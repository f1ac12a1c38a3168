/**
 * Metadata of a message whose text says everything that its data says, so a model agent is not shown the same twice.
 */
export const IN_WORDS = Object.freeze({ inWords: true })
