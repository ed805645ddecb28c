"""What the rotary schemes share: widths, frequencies and their scaling, sections of several axes, the turning itself."""
